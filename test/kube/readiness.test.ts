import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isOwnServer, missingReadyzUrl, parseReadyzUrl } from '../../src/kube/readiness.ts'
import { parseAddress } from '../../src/net/address.ts'

const advertised = [parseAddress('192.0.2.1'), parseAddress('2001:db8::1')]

test('a server at a loopback or advertised address counts as the own server', () => {
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

test('a server at any other address or name does not count as the own server: it may be a load balancer', () => {
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

test('--readyz-url is required if another server could answer in place of the own server', () => {
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

test('a readyz URL without a path gets the path /readyz', () => {
  assert.equal(parseReadyzUrl('https://127.0.0.1:6443'), 'https://127.0.0.1:6443/readyz')
  assert.equal(parseReadyzUrl('https://127.0.0.1:6443/'), 'https://127.0.0.1:6443/readyz')
  assert.equal(parseReadyzUrl('http://[::1]:8080/prefix/readyz'), 'http://[::1]:8080/prefix/readyz')
})

test('the error for a readyz URL with credentials does not quote the password', () => {
  assert.throws(
    () => parseReadyzUrl('https://admin:hunter2@127.0.0.1'),
    (error: Error) => !error.message.includes('hunter2'),
  )
})
