import assert from 'node:assert/strict'
import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { writeKubeconfigCopy } from '../../../src/drill/live/kubeconfig-copy.ts'
import { loadKubeConfig } from '../../../src/kube/kube-config.ts'
import { readPem } from '../../../src/kube/kube-config-access.ts'
import { tempDir } from '../../support/temp-dir.ts'

const data = join(import.meta.dirname, '..', '..', 'kube', 'data')

const authority = readFileSync(join(data, 'ca.crt'), 'utf8')

test('a copy leads to the proxy, with the token that the proxy has issued and as whom it asks', async (t) => {
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
    'certificate-authority': join(data, 'other-ca.crt'),
  }
  writeFileSync(file, kubeconfig(cluster, user))
  const { access } = await loadKubeConfig({ kubeconfig: file, environment: {} })

  const copy = join(directory, 'copy')
  for (const token of ['first', 'second']) {
    await writeKubeconfigCopy(copy, access, { port: 20_001, authority, token })
    const { access: copied } = await loadKubeConfig({ kubeconfig: copy, environment: {} })
    assert.equal(copied.user?.token, token)
    assert.equal(statSync(copy).mode & 0o777, 0o600)
    assert.equal(copied.server.href, 'https://127.0.0.1:20001/below')
    assert.equal(copied.ca && readPem(copied.ca), authority)
    assert.equal(copied.clientCertificate, undefined)
    assert.equal(copied.user?.impersonateUser, 'somebody')
    assert.deepEqual(copied.user?.impersonateGroups, ['some', 'group'])
  }
})

test('without a token of the proxy its own credentials stay; a proxy speaks TLS whatever the server speaks', async (t) => {
  const directory = await tempDir(t)
  const copyOf = async (cluster: object, user: object): ReturnType<typeof loadKubeConfig> => {
    const [file, copy] = [join(directory, 'kubeconfig'), join(directory, 'copy')]
    writeFileSync(file, kubeconfig(cluster, user))
    const { access } = await loadKubeConfig({ kubeconfig: file, environment: {} })
    await writeKubeconfigCopy(copy, access, { port: 20_001, authority, token: undefined })
    return loadKubeConfig({ kubeconfig: copy, environment: {} })
  }
  const exec = { apiVersion: 'client.authentication.k8s.io/v1', command: 'token', interactiveMode: 'Never' }
  const fetching = await copyOf({ server: 'https://10.0.0.1:6443' }, { exec })
  assert.equal(fetching.access.user?.exec?.command, 'token')
  const plain = await copyOf({ server: 'http://localhost:8080' }, {})
  assert.equal(plain.access.server.href, 'https://127.0.0.1:20001/')
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
