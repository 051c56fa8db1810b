import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { FleetStory } from './fleet-story.ts'

/** By its description: a story, and the invariants that it breaks. */
export type Stories = Readonly<Record<string, readonly [() => FleetStory, ...broken: string[]]>>

/** Defines a test for each story. */
export function testStories(stories: Stories): void {
  for (const [story, [run, ...broken]] of Object.entries(stories)) {
    test(`${story}: ${broken.length === 0 ? 'no violation' : broken.join(', ')}`, () => {
      const { violations } = run()
      const found = [...new Set(violations.map(({ invariant }) => invariant))].sort()
      assert.deepEqual(found, broken.sort(), violations.map(({ atMs, detail }) => `${atMs} ${detail}`).join('\n'))
    })
  }
}
