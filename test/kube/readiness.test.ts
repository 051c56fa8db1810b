import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isOwnServer, missingReadyzUrl, parseReadyzUrl } from '../../src/kube/readiness.ts'
import { parseAddress } from '../../src/net/address.ts'

const advertised = [parseAddress('192.0.2.1'), parseAddress('2001:db8::1')]

test('a server at a loopback or an advertised address is evidently the own one', () => {
  for (const url of [
    'https://127.0.0.1:6443',
    'https://127.8.8.8',
    'https://localhost:6443/prefix',
    'https://[::1]:6443',
    'https://192.0.2.1',
    'https://[2001:DB8:0::1]:443',
  ]) {
    assert.equal(isOwnServer(url, advertised), true, url)
  }
})

test('any other may be a balancer, whatever its name', () => {
  for (const url of [
    'https://192.0.2.2',
    'https://master-1',
    'https://localhost.example',
    'https://10.0.0.1',
    'https://[2001:db8::2]',
  ]) {
    assert.equal(isOwnServer(url, advertised), false, url)
  }
})

test('--readyz-url is missed where another server could answer for the own one', () => {
  const values = {
    readyzUrl: undefined,
    endpointReconcilerType: 'lease',
    advertiseAddress: advertised,
  } as const
  const balancer = new URL('https://balancer.example:6443')
  assert.match(missingReadyzUrl(values, balancer) ?? '', /^is required: .* https:\/\/balancer\.example:6443,/)
  assert.equal(missingReadyzUrl(values, new URL('https://192.0.2.1:6443')), undefined)
  assert.equal(missingReadyzUrl({ ...values, readyzUrl: 'https://balancer.example:6443/readyz' }, balancer), undefined)
  assert.equal(missingReadyzUrl({ ...values, endpointReconcilerType: 'none' }, balancer), undefined)
})

test('a URL without a path means /readyz', () => {
  assert.equal(parseReadyzUrl('https://127.0.0.1:6443'), 'https://127.0.0.1:6443/readyz')
  assert.equal(parseReadyzUrl('https://127.0.0.1:6443/'), 'https://127.0.0.1:6443/readyz')
  assert.equal(parseReadyzUrl('http://[::1]:8080/prefix/readyz'), 'http://[::1]:8080/prefix/readyz')
})

test('a URL is not quoted when it holds credentials', () => {
  assert.throws(
    () => parseReadyzUrl('https://admin:hunter2@127.0.0.1'),
    (error: Error) => !error.message.includes('hunter2'),
  )
})
