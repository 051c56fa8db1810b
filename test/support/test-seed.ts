/**
 * The seed for the random choices of a test on real servers. A seed that happens to find a rare fault must not refuse
 * an unrelated change, so only the long tests draw a new one each time. TEST_SEED repeats a run.
 */
export function testSeed(): number {
  const { TEST_SEED, TEST_TIER } = process.env
  return Number(TEST_SEED ?? (TEST_TIER === 'long' ? Date.now() % 1_000_000 : 1))
}
