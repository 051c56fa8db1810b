import assert from 'node:assert/strict'
import { test } from 'node:test'
import { messageOf } from '../../src/runtime/errors.ts'
import { openOwner } from '../peers/owner.ts'
import { describe, type Right } from './rights/right.ts'
import { rightsFor, runSituation, useOfRights, worldOf } from './rights/run.ts'
import type { Situation } from './rights/situations.ts'
import { startWorlds } from './rights/world.ts'

/** Whether a text of the program's log, without backslashes, reports that this right is missing. */
function isNamed(text: string, { verb, resource, name, namespace, path }: Right): boolean {
  if (path !== undefined) return text.includes(`${path} cannot be read: HTTP status 403`)
  // The message of admission names no resource.
  if (resource?.endsWith('/finalizers')) return text.includes('cannot set blockOwnerDeletion')
  return [
    `cannot ${verb} resource "${resource}"`,
    ...(name === undefined ? [] : [`"${name}" is forbidden`]),
    ...(namespace === undefined ? [] : [`in the namespace "${namespace}"`]),
  ].every((part) => text.includes(part))
}

test('each right in config/kustomize/rbac, rbac-endpoints, rbac-service-cidr, lease-namespace and rbac-reviews is used, and none is granted twice', async (t) => {
  const worlds = await startWorlds(openOwner(t))
  const { used, twice } = await useOfRights(worlds)
  const granted = worlds.bare.roles.flatMap(({ rights }) => rights).map(describe)
  assert.ok(granted.length > 70, `${granted.length} rights`)
  assert.deepEqual(
    granted.filter((right) => !used.has(right)),
    [],
    'unused',
  )
  assert.deepEqual([...twice], [])
})

test('if any one right of the manifests is missing, the log names it', async (t) => {
  const worlds = await startWorlds(openOwner(t))
  const { used } = await useOfRights(worlds)
  /** Why the situation did not show the missing right; undefined if the log named it. */
  const without = async (text: string, situation: Situation): Promise<string | undefined> => {
    const world = worldOf(worlds, situation)
    const right = rightsFor(world, situation).find((candidate) => describe(candidate) === text)
    assert.ok(right, text)
    try {
      const { seen } = await runSituation(world, situation, { without: right, isSeen: (line) => isNamed(line, right) })
      return seen === undefined ? `${text}: nothing was logged` : undefined
    } catch (error) {
      return `${text}: ${messageOf(error)}`
    }
  }
  const silent: string[] = []
  for (const [text, users] of used) {
    let fault: string | undefined
    for (const situation of users) {
      fault = await without(text, situation)
      // A situation may use a right only if two events happen to coincide. Then another situation must show it.
      if (fault === undefined) break
    }
    if (fault !== undefined) silent.push(fault)
  }
  assert.deepEqual(silent, [])
  t.diagnostic(`${used.size} rights were taken away, one at a time`)
})
