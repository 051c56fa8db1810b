import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isNewer } from '../../src/kube/resources.ts'

for (const [a, b, newer] of [
  ['2', '1', true],
  ['1', '2', false],
  ['1', '1', false],
  ['10', '9', true],
  ['9', '10', false],
  ['12345678901234567891', '12345678901234567890', true],
  ['2', undefined, false],
  [undefined, '1', false],
  ['x2', 'x1', false],
  ['02', '1', false],
] as const) {
  test(`resourceVersion ${a} is ${newer ? '' : 'not '}known to be newer than ${b}`, () => {
    const object = (resourceVersion: string | undefined) => ({ metadata: { resourceVersion } })
    assert.equal(isNewer(object(a), object(b)), newer)
  })
}
