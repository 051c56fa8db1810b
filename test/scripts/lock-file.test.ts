import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { root } from '../../scripts/command.ts'
import { type LockedPackage, lockFileFaults } from '../../scripts/lock-file.ts'

test('the lock file has no faults, and an integrity for every shipped package', () => {
  const lock = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8'))
  assert.deepEqual(lockFileFaults(lock), [])
  const shipped = Object.entries<LockedPackage>(lock.packages).filter(([path, { dev }]) => path !== '' && dev !== true)
  assert.ok(shipped.length > 20)
  for (const [path, { integrity }] of shipped) assert.match(integrity ?? '', /^sha512-/, path)
})

test('the lock file of the testing-controllers example has no faults and matches its package.json', () => {
  const read = (name: string) => JSON.parse(readFileSync(join(root, 'test/examples/testing-controllers', name), 'utf8'))
  const [lock, manifest] = [read('package-lock.json'), read('package.json')]
  assert.deepEqual(lockFileFaults(lock), [])
  const pinned: Record<string, string> = { ...manifest.dependencies, ...manifest.devDependencies }
  assert.deepEqual({ ...lock.packages[''].dependencies, ...lock.packages[''].devDependencies }, pinned)
  for (const [name, version] of Object.entries(pinned)) {
    assert.equal(lock.packages[`node_modules/${name}`].version, version, name)
  }
})

test('a locked package without integrity is a fault, except for tools of other platforms', () => {
  const faultsOf = (locked: LockedPackage): string[] => lockFileFaults({ packages: { 'node_modules/a': locked } })
  for (const locked of [{}, { dev: true }, { optional: true }]) {
    assert.deepEqual(faultsOf(locked), ['node_modules/a has no integrity'])
  }
  for (const locked of [{ integrity: 'sha512-x' }, { dev: true, optional: true }]) {
    assert.deepEqual(faultsOf(locked), [])
  }
  assert.deepEqual(faultsOf({ integrity: 'sha512-x', resolved: 'https://example.test/a.tgz' }), [
    'node_modules/a holds the address of a registry',
  ])
})
