import assert from 'node:assert/strict'
import { test } from 'node:test'
import { answerLimits, DEEPEST_NESTING, smallerPage } from '../../src/kube/transport.ts'

test('the page size for a list that is too long shrinks from 500 down to 1 object, and no further', () => {
  const sizes: (number | undefined)[] = [500]
  for (let size = smallerPage(500); size !== undefined; size = smallerPage(size)) sizes.push(size)
  assert.deepEqual(sizes, [500, 125, 32, 8, 2, 1])
  for (const least of [1, 0]) assert.equal(smallerPage(least), undefined)
})

test('each kind of answer has a size limit; that of an object is 2 to 4 times the 1.5 MiB that a server stores', () => {
  const { object, event, page, list, text, refusal } = answerLimits
  const storedAtMost = 1.5 * 1024 * 1024
  for (const one of [object, event]) assert.ok(one > 2 * storedAtMost && one < 4 * storedAtMost)
  assert.deepEqual([page / object, list / page], [2, 8])
  assert.deepEqual([text, refusal], [256 * 1024, 1024 * 1024])
  assert.equal(DEEPEST_NESTING, 500)
})
