// The list of pages is longer than the window: show where in it the reader is.
document.addEventListener("DOMContentLoaded", () => {
  const list = document.querySelector(".sidebar-scroll");
  const here = list?.querySelector(".sidebar-tree .current-page > a");
  if (here) list.scrollTop = here.getBoundingClientRect().top - list.getBoundingClientRect().top - list.clientHeight / 2;
});
