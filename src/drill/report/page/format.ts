/** A time or a duration in seconds, to the millisecond: `17.734 s`, never torn; a dash for what was not measured. */
export function seconds(ms: number | undefined): string {
  return ms === undefined ? '–' : `${minus((ms / 1000).toFixed(3))}\u00A0s`
}

/** A count, its thousands apart: `12,345`. */
export function count(number: number): string {
  const [whole = '', fraction] = minus(String(number)).split('.')
  const grouped = whole.replaceAll(/\B(?=(?:\d{3})+$)/g, ',')
  return fraction === undefined ? grouped : `${grouped}.${fraction}`
}

/** A share of 0 to 1: `1.250 %`. */
export function share(part: number): string {
  return `${minus((part * 100).toFixed(3))}\u00A0%`
}

/** `1 run`, `2 runs`. */
export function counted(number: number, one: string, many = `${one}s`): string {
  return `${count(number)} ${number === 1 ? one : many}`
}

/** `a`, `a and b`, `a, b and c`. */
export function listed(texts: readonly string[]): string {
  return texts.length < 2 ? texts.join('') : `${texts.slice(0, -1).join(', ')} and ${texts.at(-1)}`
}

/** A place along an axis as SVG and CSS take it, to a hundredth of a percent. */
export function percent(share: number): string {
  return `${Number((share * 100).toFixed(2))}%`
}

/** A minus sign, and none before what rounds to zero. */
function minus(text: string): string {
  return /^-[0.]*$/.test(text) ? text.slice(1) : text.replace('-', '\u2212')
}
