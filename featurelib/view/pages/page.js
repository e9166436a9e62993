// The page is whole without this: it only sorts and narrows the table of clusters.
(() => {
  const table = document.getElementById("grid");
  if (!table) return;
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const filter = document.querySelector(".filter");
  const [text, verdict] = ["find", "verdict"].map((id) => document.getElementById(id));
  const count = document.getElementById("shown");
  filter.hidden = false;

  const narrow = () => {
    const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const said = (row.textContent + " " + (row.dataset.f || "")).toLowerCase();
      const fits = words.every((word) => said.includes(word));
      row.hidden = !fits || (verdict.value !== "" && row.dataset.v !== verdict.value);
      shown += row.hidden ? 0 : 1;
    }
    count.textContent = `${shown} of ${rows.length} clusters`;
  };
  text.addEventListener("input", narrow);
  verdict.addEventListener("change", narrow);

  const { compare } = new Intl.Collator("en", { numeric: true });
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const order = rows.map((row, place) => [row.cells[column].textContent, place, row]);
      order.sort((a, b) => (down ? -1 : 1) * compare(a[0], b[0]) || a[1] - b[1]);
      body.append(...order.map((entry) => entry[2]));
    });
  });
  count.textContent = `${rows.length} of ${rows.length} clusters`;
  if (text.value || verdict.value) narrow(); // a browser fills in again what was typed before
})();
