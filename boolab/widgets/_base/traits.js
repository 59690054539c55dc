// The run and the step that a link names, as RUN:40; null if it names none.
function askedBy(text) {
  const at = text.lastIndexOf(":");
  const step = Number(text.slice(at + 1));
  return at > 0 && Number.isInteger(step) && step > 0 ? { run: text.slice(0, at), step } : null;
}

// The traits of a view that no kernel knows of: what anywidget's model is, as far as widgets here use it.

function traitsOf(values) {
  const listeners = {};
  return {
    get: (name) => values[name],
    set(name, value) {
      if (values[name] === value) return;
      values[name] = value;
      for (const one of [...(listeners[`change:${name}`] ?? [])]) one();
    },
    on: (event, listener) => (listeners[event] ??= []).push(listener),
    off: (event, listener) => (listeners[event] = (listeners[event] ?? []).filter((one) => one !== listener)),
    save_changes() {},
    send() {},
  };
}
