import assert from 'node:assert/strict'
import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { writeKubeconfigCopy } from '../../../src/drill/live/kubeconfig-copy.ts'
import { loadKubeConfig } from '../../../src/kube/kube-config.ts'
import { readPem } from '../../../src/kube/kube-config-access.ts'
import { tempDir } from '../../support/temp-dir.ts'

const data = join(import.meta.dirname, '..', '..', 'kube', 'data')

test('a copy leads to the port of 127.0.0.1, verifies the server by its name, and shows the same credentials', async (t) => {
  const directory = await tempDir(t)
  const file = join(directory, 'kubeconfig')
  const user = {
    'client-certificate': join(data, 'client-1.crt'),
    'client-key-data': readFileSync(join(data, 'client-1.key')).toString('base64'),
    as: 'somebody',
    'as-groups': ['some', 'group'],
  }
  const cluster = {
    server: 'https://api.example.test:6443/below',
    'certificate-authority-data': readFileSync(join(data, 'ca.crt')).toString('base64'),
  }
  writeFileSync(file, kubeconfig(cluster, user))
  const { access } = await loadKubeConfig({ kubeconfig: file, environment: {} })

  const copy = join(directory, 'copy')
  await writeKubeconfigCopy(copy, access, 20_001)
  assert.equal(statSync(copy).mode & 0o777, 0o600)
  const { access: copied } = await loadKubeConfig({ kubeconfig: copy, environment: {} })
  assert.equal(copied.server.href, 'https://127.0.0.1:20001/below')
  assert.equal(copied.serverName, 'api.example.test')
  assert.equal(copied.skipVerify, false)
  assert.deepEqual(copied.ca, access.ca)
  const { cert, key } = copied.clientCertificate ?? {}
  assert.deepEqual(cert, { file: join(data, 'client-1.crt') })
  assert.equal(key && readPem(key), readFileSync(join(data, 'client-1.key'), 'utf8'))
  assert.equal(copied.user?.impersonateUser, 'somebody')
  assert.deepEqual(copied.user?.impersonateGroups, ['some', 'group'])
})

test('a name that the kubeconfig gives to the server stays; a server that nobody verifies is not verified', async (t) => {
  const directory = await tempDir(t)
  const copyOf = async (cluster: object, user: object): ReturnType<typeof loadKubeConfig> => {
    const [file, copy] = [join(directory, 'kubeconfig'), join(directory, 'copy')]
    writeFileSync(file, kubeconfig(cluster, user))
    const { access } = await loadKubeConfig({ kubeconfig: file, environment: {} })
    await writeKubeconfigCopy(copy, access, 20_001)
    return loadKubeConfig({ kubeconfig: copy, environment: {} })
  }
  const named = await copyOf({ server: 'https://10.0.0.1:6443', 'tls-server-name': 'kubernetes' }, { token: 'secret' })
  assert.equal(named.access.serverName, 'kubernetes')
  assert.equal(named.access.user?.token, 'secret')
  const trusting = await copyOf({ server: 'https://10.0.0.1:6443', 'insecure-skip-tls-verify': true }, {})
  assert.equal(trusting.access.skipVerify, true)
  assert.equal(trusting.access.serverName, undefined)
  const here = await copyOf({ server: 'https://127.0.0.1:6443' }, {})
  assert.equal(here.access.serverName, undefined)
  const plain = await copyOf({ server: 'http://localhost:8080' }, {})
  assert.equal(plain.access.server.href, 'http://127.0.0.1:20001/')
})

function kubeconfig(cluster: object, user: object): string {
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'a',
    contexts: [{ name: 'a', context: { cluster: 'a', user: 'a' } }],
    clusters: [{ name: 'a', cluster }],
    users: [{ name: 'a', user }],
  })
}
