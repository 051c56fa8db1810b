/**
 * The seed of what a test on real servers draws by chance. One that would find a rare fault must not refuse a change that has nothing to do
 * with it, so only the long tests draw a new one each time. TEST_SEED repeats a run.
 */
export function testSeed(): number {
  const { TEST_SEED, TEST_TIER } = process.env
  return Number(TEST_SEED ?? (TEST_TIER === 'long' ? Date.now() % 1_000_000 : 1))
}
