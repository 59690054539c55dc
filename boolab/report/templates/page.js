"use strict";
// The report without this script is whole, except for the pages of CapLab: it adds buttons, a menu and those pages.
(() => {
  // A button that copies, at each text to paste.
  for (const pre of document.querySelectorAll(".use pre, #code pre")) {
    const box = document.createElement("div");
    box.className = "copy";
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(pre.textContent);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(pre); // a page from a file may have no clipboard
        button.textContent = "Press Ctrl+C";
      }
      setTimeout(() => (button.textContent = "Copy"), 2000);
    });
    pre.replaceWith(box);
    box.append(pre, button);
  }

  // One agent's settings at a time.
  const ways = [...document.querySelectorAll(".way")];
  if (ways.length > 1) {
    const menu = document.createElement("select");
    menu.setAttribute("aria-label", "Whose limits");
    for (const way of ways) menu.add(new Option(way.querySelector("h3").textContent));
    const show = () => ways.forEach((way, place) => (way.hidden = place !== menu.selectedIndex));
    menu.addEventListener("change", show);
    document.getElementById("who").append(menu);
    for (const way of ways) way.querySelector("h3").hidden = true;
    show();
  }

  // A link to a list, or to a run, opens it and what it is in.
  const open = () => {
    let target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const first = target;
    for (; target; target = target.parentElement?.closest("details")) if (target.tagName === "DETAILS") target.open = true;
    first?.scrollIntoView();
  };
  addEventListener("hashchange", open);
  if (location.hash) open();

  const print = document.getElementById("print");
  print.hidden = false;
  print.addEventListener("click", () => window.print());

  // The pages of CapLab, each drawn when it is opened first.
  const frames = new Map();
  const unpacked = async (text) => {
    const bytes = Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  };
  for (const box of document.querySelectorAll("details.frame")) {
    box.addEventListener("toggle", async () => {
      if (!box.open || box.dataset.drawn) return;
      box.dataset.drawn = "yes";
      const frame = document.createElement("iframe");
      frame.title = `CapLab: ${box.querySelector("summary").textContent}`;
      frame.setAttribute("sandbox", "allow-scripts allow-popups");
      frame.srcdoc = await unpacked(document.getElementById(box.dataset.frame).textContent);
      box.querySelector("p").replaceWith(frame);
      frames.set(frame.contentWindow, frame);
    });
  }
  addEventListener("message", (event) => {
    const frame = frames.get(event.source);
    const height = Number(event.data?.height);
    if (frame && height > 0) frame.style.height = `${Math.min(Math.ceil(height), 6000)}px`;
  });
})();
