(function () {
  "use strict";
  var table = document.getElementById("findings-table");
  var filter = document.getElementById("filter");
  if (!table || !filter) { return; }
  filter.hidden = false;
  var head = Array.prototype.slice.call(table.tHead.rows[0].cells);
  var bodies = Array.prototype.slice.call(table.tBodies);
  var rows = Array.prototype.slice.call(table.querySelectorAll("tr.finding"));
  var home = rows.map(function (row) { return row.parentNode; });
  var texts = rows.map(function (row) { return row.textContent.toLowerCase(); });
  var search = filter.querySelector("input[type=search]");
  var boxes = Array.prototype.slice.call(filter.querySelectorAll("input[type=checkbox]"));
  var count = document.getElementById("shown");
  var sorted = document.createElement("tbody");

  function show() {
    var words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    var severities = boxes.filter(function (box) { return box.checked; }).map(function (box) { return box.value; });
    var shown = 0;
    rows.forEach(function (row, index) {
      var fits = severities.indexOf(row.dataset.severity) >= 0 &&
        words.every(function (word) { return texts[index].indexOf(word) >= 0; });
      row.hidden = !fits;
      shown += fits ? 1 : 0;
    });
    bodies.forEach(function (body) {
      body.hidden = sorted.isConnected || !body.querySelector("tr.finding:not([hidden])");
    });
    count.textContent = shown === rows.length ? "" : shown + " of " + rows.length + " shown";
  }

  function unsort() {
    rows.forEach(function (row, index) { home[index].appendChild(row); });
    bodies.forEach(function (body) {
      var more = body.querySelector("tr.more");
      if (more) { body.appendChild(more); }
    });
    sorted.remove();
    head.forEach(function (cell) { cell.removeAttribute("aria-sort"); });
    show();
  }

  function key(row, column) {
    var cell = row.cells[column];
    return cell.dataset.key === undefined ? cell.textContent.trim() : cell.dataset.key;
  }

  function sort(column) {
    var down = head[column].getAttribute("aria-sort") === "ascending";
    var order = rows.slice().sort(function (a, b) {
      return key(a, column).localeCompare(key(b, column), undefined, { numeric: true }) * (down ? -1 : 1);
    });
    unsort();
    order.forEach(function (row) { sorted.appendChild(row); });
    table.appendChild(sorted);
    show();
    head[column].setAttribute("aria-sort", down ? "descending" : "ascending");
  }

  head.forEach(function (cell, column) {
    cell.classList.add("sorts");
    cell.tabIndex = 0;
    cell.addEventListener("click", function () { sort(column); });
    cell.addEventListener("keydown", function (event) { if (event.key === "Enter") { sort(column); } });
  });
  search.addEventListener("input", show);
  boxes.forEach(function (box) { box.addEventListener("change", show); });
  document.getElementById("worst-first").addEventListener("click", unsort);
})();
