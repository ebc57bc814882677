// A shop without a server: 240 products, a cart in the storage of the tab, and a checkout that answers with an order.
"use strict";

const SINGULAR = { Kettles: "Kettle", Teapots: "Teapot", Cups: "Cup", "Coffee makers": "Coffee maker", Grinders: "Grinder",
  Toasters: "Toaster", Knives: "Knife", Boards: "Board", Pans: "Pan", Jars: "Jar" };
const DEPARTMENTS = Object.keys(SINGULAR);
const MATERIALS = ["Brass", "Copper", "Glass", "Steel", "Stoneware", "Enamel", "Cast iron", "Oak"];
const MAKERS = ["Aldwin", "Brunner", "Castell"];
const COLOURS = ["black", "blue", "cream", "green"];
const SERVICE = ["Delivery", "Returns", "Payment", "Warranty", "Repairs", "Gift cards", "Careers", "Press", "Privacy", "Terms", "Imprint", "Contact"];
const COUPONS = { TEA10: 0.1 };

const PRODUCTS = DEPARTMENTS.flatMap((department, d) => MATERIALS.flatMap((material, m) => MAKERS.map((maker, k) => {
  const number = (d * MATERIALS.length + m) * MAKERS.length + k;
  return {
    id: `p${number}`,
    department,
    name: `${maker} ${material} ${SINGULAR[department]}`,
    cents: 1490 + (number * 1373) % 9000,
    stock: number % 7 !== 3,
    rating: (30 + (number * 17) % 20) / 10,
    votes: 4 + (number * 29) % 400,
  };
})));

const query = new URLSearchParams(location.search);
const main = document.getElementById("main");
const euro = (cents) => `€${(cents / 100).toFixed(2)}`;
const load = () => JSON.parse(sessionStorage.getItem("cart") ?? '{"lines": [], "coupon": ""}');

function save(cart) {
  sessionStorage.setItem("cart", JSON.stringify(cart));
  document.getElementById("count").textContent = cart.lines.reduce((sum, line) => sum + line.quantity, 0);
}

function total(cart) {
  const sum = cart.lines.reduce((all, line) => all + line.cents * line.quantity, 0);
  return Math.round(sum * (1 - (COUPONS[cart.coupon] ?? 0)));
}

function say(text) {
  main.querySelector("[role=status]").textContent = text;
}

function card(product) {
  return `<li><article aria-label="${product.name}">
    <h3><a href="?page=product&id=${product.id}">${product.name}</a></h3>
    <p>${product.rating.toFixed(1)} of 5 stars, ${product.votes} reviews</p>
    <p>${euro(product.cents)}</p><p>${product.stock ? "In stock" : "Back in two weeks"}</p>
    <button data-add="${product.id}" ${product.stock ? "" : "disabled"}>Add to cart</button>
    <button data-save="${product.id}">Save for later</button>
  </article></li>`;
}

function list(title, products) {
  main.innerHTML = `<h1>${title}</h1><p role="status"></p>
    <form aria-label="Filters">
      <label>Sort by <select id="sort"><option value="">Relevance</option><option value="low">Price, low to high</option><option value="high">Price, high to low</option></select></label>
      <label><input type="checkbox" id="stock"> In stock only</label>
    </form><ul class="grid" id="grid"></ul>`;
  const show = () => {
    const chosen = products.filter((one) => one.stock || !main.querySelector("#stock").checked);
    const order = { low: 1, high: -1 }[main.querySelector("#sort").value] ?? 0;
    chosen.sort((one, other) => order * (one.cents - other.cents));
    main.querySelector("#grid").innerHTML = chosen.map(card).join("");
    say(`${chosen.length} products`);
  };
  main.querySelector("form").addEventListener("change", show);
  show();
}

function add(id, quantity, colour = "") {
  const cart = load();
  const product = PRODUCTS.find((one) => one.id === id);
  const line = cart.lines.find((one) => one.id === id && one.colour === colour);
  if (line) line.quantity += quantity;
  else cart.lines.push({ id, colour, quantity, name: product.name, cents: product.cents });
  save(cart);
  say(`Added ${quantity} × ${product.name} to the cart`);
}

function productPage(product) {
  const others = PRODUCTS.filter((one) => one.department === product.department && one.id !== product.id).slice(0, 12);
  main.innerHTML = `<h1>${product.name}</h1><p role="status"></p>
    <p>${euro(product.cents)}</p><p>${product.stock ? "In stock" : "Back in two weeks"}</p>
    <form aria-label="Order">
      <label>Colour <select id="colour">${COLOURS.map((one) => `<option>${one}</option>`).join("")}</select></label>
      <label>Quantity <input type="number" id="quantity" min="1" value="1"></label>
      <button type="button" data-order="${product.id}" ${product.stock ? "" : "disabled"}>Add to cart</button>
    </form>
    <h2>Description</h2>
    <p>Made by hand in small numbers, tested for ten years of daily use, and repaired for as long as you own it.</p>
    <table><caption>Details</caption><tbody>${["Weight 1.2 kg", "Height 24 cm", "Volume 1.7 l", "Origin Portugal", "Warranty 10 years", "Dishwasher no"]
      .map((one) => one.split(/ (.*)/)).map(([key, value]) => `<tr><th scope="row">${key}</th><td>${value}</td></tr>`).join("")}</tbody></table>
    <h2>Reviews</h2><ul>${[5, 4, 4, 3, 5, 2, 4, 5].map((stars, n) => `<li><article aria-label="Review ${n + 1}">
      <h3>${stars} of 5 stars</h3><p>Customer ${n + 1} wrote on ${n + 3} March: it does what it says, and looks good on the table.</p>
      <button>Helpful</button> <button>Report</button></article></li>`).join("")}</ul>
    <h2>Others looked at</h2><ul class="grid">${others.map(card).join("")}</ul>`;
}

function cartPage() {
  const cart = load();
  main.innerHTML = `<h1>Cart</h1><p role="status"></p>
    <table><caption>Your products</caption><thead><tr><th>Product</th><th>Quantity</th><th>Price</th><th>Change</th></tr></thead><tbody>${
      cart.lines.map((line, n) => `<tr><td>${line.name} ${line.colour}</td>
        <td><input type="number" min="1" aria-label="Quantity of ${line.name}" data-line="${n}" value="${line.quantity}"></td>
        <td>${euro(line.cents * line.quantity)}</td><td><button data-remove="${n}">Remove ${line.name}</button></td></tr>`).join("")}</tbody></table>
    <form aria-label="Coupon"><label>Coupon code <input id="code" value="${cart.coupon}"></label> <button>Apply coupon</button></form>
    <p>Total: <strong id="total">${euro(total(cart))}</strong></p>
    <a href="?page=checkout">Go to checkout</a>
    <h2>Others bought</h2><ul class="grid">${PRODUCTS.filter((one, n) => n % 20 === 5).map(card).join("")}</ul>`;
  main.querySelector("form").addEventListener("submit", (event) => {
    event.preventDefault();
    const code = main.querySelector("#code").value.trim();
    if (!(code in COUPONS)) return say("This coupon is not known");
    save({ ...load(), coupon: code });
    cartPage();
    say("Coupon applied");
  });
}

function checkoutPage() {
  const text = (id, label) => `<p><label>${label} <input id="${id}" required></label></p>`;
  main.innerHTML = `<h1>Checkout</h1><p role="status"></p><form aria-label="Address">
    ${text("name", "Full name")}${text("street", "Street")}${text("city", "City")}${text("mail", "Mail address")}
    <fieldset><legend>Delivery</legend>
      <label><input type="radio" name="way" value="0" checked> Standard, free</label>
      <label><input type="radio" name="way" value="900"> Express, €9.00</label></fieldset>
    <p>To pay: <strong id="pay">${euro(total(load()))}</strong></p>
    <button>Place order</button></form>`;
  const way = () => Number(main.querySelector("[name=way]:checked").value);
  main.querySelector("form").addEventListener("change", () => {
    main.querySelector("#pay").textContent = euro(total(load()) + way());
  });
  main.querySelector("form").addEventListener("submit", (event) => {
    event.preventDefault();
    const cart = load();
    const pay = total(cart) + way();
    const number = `HC-${cart.lines.map((line) => `${line.id}x${line.quantity}`).join("-")}-${pay}`;
    save({ lines: [], coupon: "" });
    main.innerHTML = `<h1>Thank you, ${main.querySelector("#name").value}</h1><p role="status"></p><p>Order number: <strong>${number}</strong></p>`;
  });
}

document.getElementById("departments").innerHTML = DEPARTMENTS.map((one) => `<li><a href="?page=search&q=${encodeURIComponent(SINGULAR[one])}">${one}</a></li>`).join("");
document.getElementById("service").innerHTML = SERVICE.map((one) => `<li><a href="?page=${one.toLowerCase()}">${one}</a></li>`).join("");
save(load());

document.addEventListener("click", (event) => {
  const { add: id, order, remove } = event.target.dataset;
  if (id) add(id, 1);
  if (order) add(order, Number(main.querySelector("#quantity").value), main.querySelector("#colour").value);
  if (remove) {
    const cart = load();
    cart.lines.splice(Number(remove), 1);
    save(cart);
    cartPage();
  }
});
document.addEventListener("input", (event) => {
  const { line } = event.target.dataset;
  if (line === undefined) return;
  const cart = load();
  cart.lines[Number(line)].quantity = Number(event.target.value);
  save(cart);
  cartPage();
});

const wanted = (query.get("q") ?? "").toLowerCase();
const pages = {
  search: () => list(`Results for “${wanted}”`, PRODUCTS.filter((one) => one.name.toLowerCase().includes(wanted))),
  product: () => productPage(PRODUCTS.find((one) => one.id === query.get("id"))),
  cart: cartPage,
  checkout: checkoutPage,
};
(pages[query.get("page")] ?? (() => list("Our best", PRODUCTS.filter((one, n) => n % 5 === 0))))();
