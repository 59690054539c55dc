// The keys of Replay, and what they do.

const JUMPS = { error: "e", repeat: "r", limit: "l" };
const HELP = [
  ["space", "play, pause"], ["← →", "step by step"], ["shift ← →", "ten steps"], ["home end", "first, last step"],
  ["e r l", "next error, repeat, limit (shift: previous)"], ["/", "search"], ["n enter", "next hit (shift: previous)"],
  ["o", "outline; ↑ ↓ the item before, after"], ["c", "copy the link"], ["+ −", "zoom the timeline"], ["?", "these keys"],
  ["tab", "what there is in the chosen step"], ["esc", "close, leave the search"],
];

const FIELD_KEYS = ["Enter", "shift+Enter", "Escape"];

// What keys do, for whichever run is drawn.
function keysOf(player) {
  const pressesOther = (event) => event.target.matches?.("button, summary, select");
  return {
    " ": () => player()?.play(),
    ArrowLeft: () => player()?.by(-1),
    ArrowRight: () => player()?.by(1),
    "shift+ArrowLeft": () => player()?.by(-10),
    "shift+ArrowRight": () => player()?.by(10),
    PageUp: (event) => (event.target.matches?.(".timeline") ? player()?.by(-10) : false),
    PageDown: (event) => (event.target.matches?.(".timeline") ? player()?.by(10) : false),
    ArrowUp: () => player()?.beside(-1),
    ArrowDown: () => player()?.beside(1),
    Home: () => player()?.first(),
    End: () => player()?.last(),
    ...Object.fromEntries(
      Object.entries(JUMPS).flatMap(([flag, key]) => [
        [key, () => player()?.jumpFlag(flag, 1)],
        [key.toUpperCase(), () => player()?.jumpFlag(flag, -1)],
      ]),
    ),
    n: () => player()?.jumpHit(1),
    N: () => player()?.jumpHit(-1),
    o: () => player()?.outline(),
    c: () => void player()?.copyLink(),
    "+": () => player()?.zoom(0.5),
    "-": () => player()?.zoom(2),
    "/": () => player()?.search(),
    "?": () => player()?.showHelp(),
    Enter: (event) => (pressesOther(event) ? false : player()?.jumpHit(1)),
    "shift+Enter": (event) => (pressesOther(event) ? false : player()?.jumpHit(-1)),
    Escape: () => player()?.leave(),
  };
}
