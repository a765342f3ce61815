// sha256: the digest of UTF-8 text, as hexadecimal digits. crypto.subtle exists on https and localhost only.

const PRIMES = firstPrimes(64);
const K = new Uint32Array(PRIMES.map(prime => fraction(Math.cbrt(prime))));
const INITIAL = new Uint32Array(PRIMES.slice(0, 8).map(prime => fraction(Math.sqrt(prime))));
const W = new Uint32Array(64);

export function sha256(text) {
  const bytes = new TextEncoder().encode(text);
  const blocks = new Uint8Array((((bytes.length + 8) >> 6) + 1) << 6);
  blocks.set(bytes);
  blocks[bytes.length] = 0x80;
  const view = new DataView(blocks.buffer);
  view.setUint32(blocks.length - 8, Math.floor(bytes.length / 2 ** 29));
  view.setUint32(blocks.length - 4, bytes.length << 3);
  const state = INITIAL.slice();
  for (let at = 0; at < blocks.length; at += 64) mix(state, view, at);
  return [...state].map(word => word.toString(16).padStart(8, "0")).join("");
}

function mix(state, view, at) {
  for (let i = 0; i < 16; i++) W[i] = view.getUint32(at + i * 4);
  for (let i = 16; i < 64; i++) {
    const a = W[i - 15];
    const b = W[i - 2];
    W[i] = W[i - 16] + W[i - 7] + (turn(a, 7) ^ turn(a, 18) ^ (a >>> 3)) + (turn(b, 17) ^ turn(b, 19) ^ (b >>> 10));
  }
  let [a, b, c, d, e, f, g, h] = state;
  for (let i = 0; i < 64; i++) {
    const t = (h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + K[i] + W[i]) | 0;
    const u = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    [a, b, c, d, e, f, g, h] = [(t + u) | 0, a, b, c, (d + t) | 0, e, f, g];
  }
  [a, b, c, d, e, f, g, h].forEach((word, i) => (state[i] += word));
}

function turn(word, bits) {
  return (word >>> bits) | (word << (32 - bits));
}

function fraction(root) {
  return ((root % 1) * 2 ** 32) >>> 0;
}

function firstPrimes(count) {
  const found = [];
  for (let n = 2; found.length < count; n++) if (found.every(prime => n % prime)) found.push(n);
  return found;
}
