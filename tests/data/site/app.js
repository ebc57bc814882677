function add(a, b) {
  const sum = a + b;
  note(sum);
  return sum;
}

function note(value) {
  console.log('sum', value, {unit: 'piece'});
}

function fail() {
  throw new TypeError('out of stock');
}

function ask() {
  document.title = confirm('Really?') ? 'yes' : 'no';
}

function tick() {
  window.ticks = (window.ticks ?? 0) + 1;
}
