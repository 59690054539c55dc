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
