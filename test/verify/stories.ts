import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { FleetStory } from './fleet-story.ts'

/** What happens, in words; how it is told; and which invariants it breaks. */
export type Stories = Readonly<Record<string, readonly [() => FleetStory, ...broken: string[]]>>

/** Makes a test of each. */
export function tellStories(stories: Stories): void {
  for (const [story, [tell, ...broken]] of Object.entries(stories)) {
    test(`${story}: ${broken.length === 0 ? 'all holds' : broken.join(', ')}`, () => {
      const { violations } = tell()
      const found = [...new Set(violations.map(({ invariant }) => invariant))].sort()
      assert.deepEqual(found, broken.sort(), violations.map(({ atMs, detail }) => `${atMs} ${detail}`).join('\n'))
    })
  }
}
