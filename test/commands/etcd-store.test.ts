import assert from 'node:assert/strict'
import { test } from 'node:test'
import { plainEndpoints } from '../../src/commands/etcd-store.ts'
import { parseEndpoint } from '../../src/etcd/options.ts'

test('plainEndpoints returns the endpoints of remote etcd servers without TLS', () => {
  const [plain, plainIpv6] = ['http://etcd-1:2379', 'http://[2001:db8::1]:2379']
  const safe = [
    'https://etcd-1:2379',
    'unix:///run/etcd',
    'http://127.0.0.1:2379',
    'http://[::1]:2379',
    'http://localhost:2379',
  ]
  assert.deepEqual(plainEndpoints([plain, ...safe, plainIpv6].map(parseEndpoint)), [plain, plainIpv6])
})
