/**
 * How much of a campaign a test runs: `unit` with `npm test`, `floor` with `npm run test:floor`, which CI runs too and
 * which has more time.
 */
export function inUnitOrFloor<const T>(unit: T, floor: T): T {
  return process.env.TEST_TIER === 'floor' ? floor : unit
}
