/**
 * How much of a campaign a test runs: the first of the two numbers with `npm test`, the second with `npm run test:floor`, which CI runs
 * too and which has more time.
 */
export function inUnitOrFloor<const T>(unit: T, floor: T): T {
  return process.env.TEST_TIER === 'floor' ? floor : unit
}
