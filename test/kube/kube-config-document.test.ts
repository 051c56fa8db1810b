import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readKubeConfig } from '../../src/kube/kube-config-document.ts'

test('a kubeconfig with 60,000 keys, and with merge keys that are repeated, is read', () => {
  const users = ['users:', '- name: u', '  user:', '    <<: { token: a }', '    <<: { as: b }', '    username: c']
  const many = ['extra:', ...Array.from({ length: 60_000 }, (_, index) => `  k${index}: 1`)]
  const entries = readKubeConfig('config', [...users, ...many].join('\n'))
  assert.deepEqual(entries.users, [{ name: 'u', token: 'a', username: 'c', impersonateUser: 'b' }])
})
