function render({ model, el }) {
  el.classList.add("boolab", "boolab-replay");
  return withData(model, el, (data) => {
    fill(el, h("h3", {}, visible(data.title)));
  });
}

export default { render };
