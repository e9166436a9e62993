// The page is whole without this: it copies commands, folds what to do today to some lines each, but for the most
// urgent that have room, and it sorts and narrows the table of clusters, and what stands of each
// below. What was chosen stands in the address, so that a link shows the same.
(() => {
  const tasks = [...document.querySelectorAll(".today li")];
  const folded = [];
  const isWhole = () => tasks.at(-1).offsetTop + tasks.at(-1).offsetHeight <= window.innerHeight;
  for (const task of tasks.length && !isWhole() ? tasks : []) {
    task.classList.add("short");
    const cut = (e) => e.scrollHeight > e.clientHeight + 1 || e.scrollWidth > e.clientWidth;
    if (![...task.querySelectorAll("p, p > span, :scope > span > *")].some(cut)) {
      task.classList.remove("short");
      continue;
    }
    const button = document.createElement("button");
    button.type = "button";
    const show = (all) => {
      task.classList.toggle("short", !all);
      button.textContent = all ? "less" : "more";
      button.setAttribute("aria-expanded", all);
    };
    show(false);
    button.addEventListener("click", () => show(task.classList.contains("short")));
    // A keyboard may come to a link that is folded away.
    task.addEventListener("focusin", (event) => {
      if (event.target.matches(":is(p, .soft) a:focus-visible")) show(true);
    });
    task.prepend(button);
    folded.push(show);
  }
  for (const show of folded) {
    show(true);
    if (isWhole()) continue;
    show(false);
    break;
  }

  for (const command of navigator.clipboard ? document.querySelectorAll(".today code, .side pre, article pre") : []) {
    const text = command.textContent;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "copy";
    button.setAttribute("aria-label", `copy ${text}`);
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(text);
      button.textContent = "copied";
    });
    command.append(button);
  }

  const table = document.getElementById("grid");
  if (!table) return;
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const heads = [...table.tHead.rows[0].cells];
  const inputs = [...document.querySelectorAll(".filter input, .filter select")];
  const count = document.getElementById("shown");
  const filter = document.querySelector(".filter");
  filter.hidden = false;
  const column = (title) => heads.findIndex((head) => head.textContent === title);
  const places = {
    verdict: 1,
    release: column("software"),
  };
  const clear = document.createElement("button");
  clear.type = "button";
  clear.textContent = "show all";
  count.parentElement.append(clear);
  const fits = (row, input) => {
    if (input.id === "phase") return row.dataset.p === input.value;
    if (input.matches("#cause, #change"))
      return (row.dataset[input.id] ?? "").split(" ").includes(`${input.selectedIndex}`);
    if (input.id === "severity") return row.cells[1].querySelector("b")?.textContent === input.value;
    if (input.id === "owner")
      return (row.dataset.owner ?? "") === (input.value === "(nobody)" ? "" : input.value);
    const said = (row.cells[places[input.id]]?.firstChild?.textContent ?? "").trim();
    // Several things may be to do in a cluster, and any of several be asked for.
    if (input.id === "todo") {
      const there = (row.dataset.todo ?? "").split(" ").filter(Boolean);
      const asked = input.value.split("|");
      return there.some((number) => asked.includes(input.options[number].value));
    }
    // Of software `3.9 to 4.2` both ends are meant.
    if (input.id === "release") return said.split(" to ").includes(input.value);
    return said === input.value;
  };
  const part = (row) => {
    const link = row.cells[0].firstElementChild.getAttribute("href");
    return link[0] === "#" ? document.getElementById(link.slice(1)) : null;
  };

  const narrow = () => {
    const words = inputs[0].value.toLowerCase().split(/\s+/).filter(Boolean);
    const chosen = inputs.slice(1).filter((input) => input.value);
    let shown = 0;
    for (const row of rows) {
      const said = words.length
        ? `${row.textContent} ${row.dataset.f} ${row.dataset.p}`.toLowerCase()
        : "";
      row.hidden =
        !words.every((word) => said.includes(word)) ||
        !chosen.every((input) => fits(row, input));
      const below = part(row);
      if (below) below.hidden = row.hidden;
      shown += row.hidden ? 0 : 1;
    }
    const [some, all] = [shown, rows.length].map((one) => one.toLocaleString("en"));
    count.textContent = `${some} of ${all} cluster${all === "1" ? "" : "s"}`;
    clear.hidden = !inputs.some((input) => input.value);
    // On paper there are no fields that say it.
    document.getElementById("chosen").textContent = inputs
      .filter((input) => input.value)
      .map((input) => `${input.labels[0].firstChild.textContent.trim()}: ${input.value}`)
      .join(", ");
  };

  const { compare } = new Intl.Collator("en", { numeric: true });
  // Of a feature `▲ 25→29` the finalized level counts.
  const value = (cell) =>
    cell.dataset.s ??
    (heads[cell.cellIndex].className === "f"
      ? (/\d+/.exec(cell.textContent)?.[0] ?? "")
      : cell.textContent);
  const sort = (column, down) => {
    for (const head of heads) head.removeAttribute("aria-sort");
    heads[column].setAttribute("aria-sort", down ? "descending" : "ascending");
    const order = rows.map((row, place) => [value(row.cells[column]), place, row]);
    // What has no value comes last, whichever way.
    order.sort(
      (a, b) =>
        (a[0] === "") - (b[0] === "") ||
        (down ? -1 : 1) * compare(a[0], b[0]) ||
        a[1] - b[1],
    );
    body.append(...order.map((entry) => entry[2]));
  };

  const empty = () => {
    for (const input of inputs) input.value = "";
    narrow();
  };

  const keep = () => {
    const state = new URLSearchParams();
    for (const input of inputs) if (input.value) state.set(input.id, input.value);
    const head = heads.find((one) => one.ariaSort);
    if (head) state.set("sort", `${head.textContent}${head.ariaSort === "descending" ? "-" : ""}`);
    history.replaceState(null, "", `#${state}`);
  };
  const follow = () => {
    const state = new URLSearchParams(location.hash.slice(1));
    if (location.hash && !location.hash.includes("=")) {
      const asked = document.getElementById(location.hash.slice(1));
      if (!asked?.hidden) return;
      // Of a cluster that the filter hides: whoever asks for it wants to see it.
      empty();
      location.replace(location.hash); // goes there again, now that there is a place
      return;
    }
    if (location.hash) filter.scrollIntoView();
    for (const input of inputs) input.value = state.get(input.id) ?? "";
    const by = state.get("sort") ?? "";
    const column = heads.findIndex((head) => head.textContent === by.replace(/-$/, ""));
    if (column >= 0) sort(column, by.endsWith("-"));
    else if (heads.some((head) => head.ariaSort)) {
      for (const head of heads) head.removeAttribute("aria-sort");
      body.append(...rows);
    }
    narrow();
  };

  clear.addEventListener("click", () => {
    empty();
    keep();
    inputs[0].focus(); // the button itself is gone
  });
  for (const input of inputs)
    input.addEventListener("input", () => {
      narrow();
      keep();
    });
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      sort(column, head.getAttribute("aria-sort") === "ascending");
      keep();
    });
  });
  window.addEventListener("hashchange", follow);
  // A link to where one is already changes no address.
  document.addEventListener("click", (event) => {
    if (event.target.closest("a")?.getAttribute("href") === location.hash) follow();
  });
  narrow(); // a browser fills in again what was typed before
  follow();
})();
