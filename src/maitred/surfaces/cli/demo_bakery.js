// The tools of a bakery's page in three categories, and a sum that is too small, for the debugger.
// A page works without agents, too, so it registers them only where there is `document.modelContext`.
const orders = [
  {id: 1, customer: 'Ann', article: 'rye bread', count: 2, price: 4},
  {id: 2, customer: 'Bob', article: 'croissant', count: 12, price: 1},
  {id: 3, customer: 'Eve', article: 'plum cake', count: 1, price: 18},
];
const stock = {'rye bread': 14, croissant: 60, 'plum cake': 3};

function total() {
  let sum = 0;
  for (const order of orders) {
    sum += order.price;
  }
  document.querySelector('#sum').textContent = sum;
}
document.querySelector('#total').addEventListener('click', total);

const id = {type: 'integer', description: 'The number of the order.'};
const article = {type: 'string', enum: Object.keys(stock), description: 'The article.'};
const count = {type: 'integer', minimum: 1, maximum: 100, description: 'How many.'};
const customer = {type: 'string', description: 'The name of the customer.'};
const find = (number) => orders.find((one) => one.id === number) ?? {error: `there is no order ${number}`};

function register(category, name, description, properties, execute, annotations = {}) {
  const required = Object.keys(properties);
  const inputSchema = {type: 'object', properties, required, additionalProperties: false, 'x-category': category};
  return document.modelContext?.registerTool({name, description, inputSchema, annotations, execute});
}

await register('orders', 'list_orders', 'List the open orders of today.', {}, () => ({orders}));
await register('orders', 'get_order', 'Read one order with its article and price.', {id}, ({id}) => find(id));
await register('orders', 'place_order', 'Place an order for a customer.', {customer, article, count},
  (given) => { orders.push({id: orders.length + 1, price: 1, ...given}); return orders.at(-1); });
await register('orders', 'refund_order', 'Pay the price of an order back.', {id},
  ({id}) => ({refunded: find(id)}), {consequentialHint: true});
await register('stock', 'list_stock', 'List all articles with how many are on the shelf.', {}, () => stock);
await register('stock', 'count_article', 'Count what is left of an article.', {article}, ({article}) => stock[article]);
await register('stock', 'bake_article', 'Bake more of an article.', {article, count},
  ({article, count}) => ({article, left: stock[article] += count}));
await register('stock', 'remove_article', 'Take old pieces of an article off the shelf.', {article, count},
  ({article, count}) => ({article, left: stock[article] -= count}));
await register('customers', 'list_customers', 'List the customers who ordered today.', {},
  () => [...new Set(orders.map((one) => one.customer))]);
await register('customers', 'orders_of_customer', 'List the orders of one customer.', {customer},
  ({customer}) => orders.filter((one) => one.customer === customer));
await register('customers', 'message_customer', 'Write to a customer that an order is ready.', {customer, id},
  ({customer, id}) => `${customer} knows that order ${id} is ready`, {consequentialHint: true});
