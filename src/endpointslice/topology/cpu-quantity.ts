const decimal: Readonly<Record<string, number>> = { n: -9, u: -6, m: -3, '': 0, k: 3, M: 6, G: 9, T: 12, P: 15, E: 18 }
const binary: Readonly<Record<string, number>> = { Ki: 10, Mi: 20, Gi: 30, Ti: 40, Pi: 50, Ei: 60 }

const form = /^([+-]?)(\d*)(?:\.(\d*))?(?:([eE])([+-]?\d{1,3})|([KMGTPE]i|[numkMGTPE])?)$/

/**
 * The amount that a quantity of the API means, in billionths: `2`, `1500m`, `0.5`, `1Ki`, `1e3`. What is below a billionth is rounded away from zero, as
 * `resource.Quantity` does. Undefined for what is no quantity.
 */
export function nanosOf(text: string): bigint | undefined {
  const match = form.exec(text)
  if (match === null) return undefined
  const [, sign, whole = '', fraction = '', exponentSign, exponent = '', suffix = ''] = match
  if (whole === '' && fraction === '') return undefined
  const tens = exponentSign === undefined ? (decimal[suffix] ?? 0) : Number(exponent)
  const digits = BigInt(whole + fraction) << BigInt(binary[suffix] ?? 0)
  const power = tens + 9 - fraction.length
  const nanos = power >= 0 ? digits * 10n ** BigInt(power) : divideUp(digits, 10n ** BigInt(-power))
  return sign === '-' ? -nanos : nanos
}

/** Billionths as thousandths, rounded up: `Quantity.MilliValue`. */
export function millisOf(nanos: bigint): number {
  return Number(divideUp(nanos, 1_000_000n))
}

function divideUp(dividend: bigint, divisor: bigint): bigint {
  const quotient = dividend / divisor
  return dividend > 0n && quotient * divisor !== dividend ? quotient + 1n : quotient
}
