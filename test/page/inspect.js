// What a person would stumble over, as a list of sentences.
(() => {
  const out = [];
  const name = (x) => x.tagName.toLowerCase() + " " + JSON.stringify(x.textContent.slice(0, 60));
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width) out.push("the page is wider than the screen");

  const visible = [...document.body.querySelectorAll("*")].filter((x) => x.checkVisibility() && !x.closest(".unseen"));
  const texts = visible.filter((x) => [...x.childNodes].some((c) => c.nodeType === Node.TEXT_NODE && c.data.trim()));
  for (const x of visible) {
    if (x.clientWidth && x.scrollWidth > x.clientWidth + 1) out.push(name(x) + " is cut");
    if (x.getBoundingClientRect().right > width + 1) out.push(name(x) + " is out of the screen");
  }

  // A color of CSS, as red, green, blue and how opaque it is.
  const color = (text) => text.match(/[\d.]+/g).map(Number);
  const back = (x) => {
    for (let at = x; at; at = at.parentElement) {
      const [r, g, b, a = 1] = color(getComputedStyle(at).backgroundColor);
      if (a > 0) return [r, g, b];
    }
    return [255, 255, 255];
  };
  const light = (rgb) => rgb.map((c) => c / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  for (const x of texts) {
    const [dark, bright] = [light(color(getComputedStyle(x).color).slice(0, 3)), light(back(x))].sort((a, b) => a - b);
    const contrast = (bright + 0.05) / (dark + 0.05);
    if (contrast < 4.5) out.push(name(x) + " has a contrast of " + contrast.toFixed(1));
    if (/undefined|\bnull\b|NaN|Invalid Date|\[object/.test(x.textContent)) out.push(name(x) + " is no text for people");
    if (/cannot be shown/.test(x.textContent)) out.push(name(x));
  }

  for (const x of visible.filter((v) => v.matches("a, button, progress, section, table, [role=table]"))) {
    const by = x.getAttribute("aria-labelledby");
    const label = x.getAttribute("aria-label") || (by ? document.getElementById(by)?.textContent : x.matches("a, button") ? x.textContent : "");
    if (!label?.trim()) out.push(name(x) + " has no name for a screen reader");
  }
  for (const x of visible.filter((v) => v.matches("a[href^='#']"))) {
    if (!document.querySelector(x.getAttribute("href"))?.checkVisibility()) out.push(name(x) + " leads to what is not shown");
  }

  // The first of these that exists has to be seen without a movement of the hand.
  const first = [...document.querySelectorAll("#failures, #warnings, #blockers")].find((x) => x.checkVisibility());
  if (first && innerHeight > 700 && first.getBoundingClientRect().top > innerHeight - 60) out.push("#" + first.id + " is below the first screen");
  return out;
})()
