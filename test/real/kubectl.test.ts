import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { startApiServer } from '../../src/testing.ts'
import { bootstrapped } from '../conformance/scenario.ts'
import { startCluster } from '../peers/cluster.ts'
import { type KubectlResult, kubectlFor } from '../peers/kubectl.ts'
import { openOwner, temporaryDirectory } from '../peers/owner.ts'

const manifest = `apiVersion: v1
kind: Service
metadata: {name: web, labels: {app: web}}
spec:
  selector: {app: web}
  ports: [{name: a, port: 80}, {name: b, port: 443}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: map, labels: {app: web}}
data: {a: "1", b: "2"}
---
apiVersion: v1
kind: Pod
metadata: {name: pod, labels: {app: web}}
spec: {containers: [{name: main, image: registry.example/main:1}]}
`

const list = `apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: listed}, data: {a: "1"}}
- {apiVersion: v1, kind: Secret, metadata: {name: listed}, stringData: {a: "1"}}
`

/** The command lines, one after the other; `FILE`, `LIST` and `CHANGED` stand for files with the objects. */
const lines: readonly string[] = [
  'version',
  'get --raw /readyz',
  'create namespace blue --dry-run=client',
  'apply -f FILE',
  'apply -f FILE',
  'get services web',
  'get services web -o wide',
  'get all',
  'get pods,configmaps -l app=web',
  'get configmaps -A -l app=web --no-headers',
  'get configmap map -o jsonpath={.data}',
  'get configmaps --field-selector metadata.name=map -o name',
  'get configmap map -o custom-columns=NAME:.metadata.name,A:.data.a',
  'get pod pod --show-labels',
  'create -f LIST',
  'apply -f LIST',
  'apply --server-side -f LIST --force-conflicts',
  'replace -f LIST',
  'get -f LIST -o name',
  'delete -f LIST',
  'set env pod/pod X=Y --dry-run=client -o name',
  'set image pod/pod main=registry.example/main:2',
  'get unicorns',
  'get configmap nobody',
  'label configmap map color=red',
  'label configmap map color=red',
  'label configmap map color=blue',
  'label configmap map color=blue --overwrite',
  'annotate service web note=own',
  'patch configmap map -p {"data":{"a":null}}',
  'patch configmap map --type=merge -p {"data":{"c":"3"}}',
  'patch configmap map --type=json -p [{"op":"remove","path":"/data/c"}]',
  'patch service web -p {"spec":{"ports":[{"port":443,"targetPort":8443}]}}',
  'apply -f CHANGED',
  'get service web -o jsonpath={.spec.ports}',
  'apply --server-side -f CHANGED',
  'apply --server-side -f FILE',
  'apply --server-side -f CHANGED',
  'get configmap map -o jsonpath={.metadata.annotations}',
  'apply -f FILE',
  'apply --server-side --field-manager=other -f FILE',
  'apply --server-side --field-manager=other --force-conflicts -f FILE',
  'replace -f FILE',
  'create -f FILE',
  'wait --for=jsonpath={.metadata.name}=web service/web --timeout=5s',
  'describe service web',
  'describe configmap map',
  'create configmap literal --from-literal=a=1 --from-literal=b=2',
  'create configmap literal --from-literal=a=1',
  'get configmap literal -o jsonpath={.data}',
  'create secret generic password --from-literal=word=open',
  'get secrets -o wide',
  'describe secret password',
  'create serviceaccount builder',
  'get serviceaccounts builder',
  'create service clusterip made --tcp=80:8080',
  'create service nodeport open --tcp=80 --node-port=30123',
  'create service externalname outside --external-name=example.com',
  'get services made open outside -o custom-columns=N:.metadata.name,T:.spec.type,P:.spec.ports,E:.spec.externalName',
  'expose service made --name=copy --port=81',
  'run shell --image=registry.example/shell:1 --dry-run=server -o name',
  'diff -f CHANGED',
  'auth can-i create services',
  'auth can-i get /version',
  'get events',
  'get pods -o yaml -l none=here',
  'create -f WIDGET',
  'scale widget one --replicas=3',
  'scale widget one --replicas=4 --current-replicas=2',
  'scale widget one --replicas=4 --current-replicas=3',
  'get widget one --subresource=scale',
  'get widget one -o jsonpath={.spec}',
  'scale widget nobody --replicas=1',
  'delete widget one',
  'delete configmap,secret,serviceaccount,service literal password builder made open outside copy --ignore-not-found',
  'delete configmap map',
  'delete configmap map',
  'delete -f FILE --ignore-not-found',
  'get all',
  'get endpointslices',
  'get leases -n kube-system -l none=here',
]

/** A kind with replicas, which both servers have before the tests. */
const definition = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: 'widgets.example.com' },
  spec: {
    group: 'example.com',
    scope: 'Namespaced',
    names: { plural: 'widgets', kind: 'Widget' },
    versions: [
      {
        name: 'v1',
        served: true,
        storage: true,
        schema: { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } },
        subresources: { scale: { specReplicasPath: '.spec.replicas', statusReplicasPath: '.status.replicas' } },
      },
    ],
  },
}
const widget = { apiVersion: 'example.com/v1', kind: 'Widget', metadata: { name: 'one' }, spec: { replicas: 1 } }

describe('kubectl prints the same on the embedded API server as on a real one', () => {
  const owner = openOwner({ after })
  let real: (...args: string[]) => Promise<KubectlResult>
  let embedded: typeof real
  let directory: string

  before(async () => {
    directory = temporaryDirectory(owner, 'manifests')
    writeFileSync(join(directory, 'objects.yaml'), manifest)
    writeFileSync(join(directory, 'list.yaml'), list)
    writeFileSync(
      join(directory, 'changed.yaml'),
      manifest.replace('port: 443', 'port: 444').replace('b: "2"', 'b: "3"'),
    )
    const { server } = await startCluster(owner, { kind: 'stock' })
    const started = await startApiServer({
      crds: [definition],
      objects: [
        ...bootstrapped,
        { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'kube-system' } },
        {
          apiVersion: 'discovery.k8s.io/v1',
          kind: 'EndpointSlice',
          metadata: { name: 'kubernetes', namespace: 'default' },
          addressType: 'IPv4',
          endpoints: [{ addresses: ['192.0.2.250'] }],
          ports: [{ name: 'https', port: server.port, protocol: 'TCP' }],
        },
      ],
    })
    owner.after(() => started.close())
    const file = join(directory, 'kubeconfig')
    await started.writeKubeconfig(file)
    real = kubectlFor(owner, server.kubeconfig)
    embedded = kubectlFor(owner, file)
    writeFileSync(join(directory, 'widget.json'), JSON.stringify(widget))
    writeFileSync(join(directory, 'definition.json'), JSON.stringify(definition))
    await real('create', '-f', join(directory, 'definition.json'))
    await real('wait', '--for=condition=Established', 'crd/widgets.example.com', '--timeout=20s')
  })

  for (const [index, line] of lines.entries()) {
    test(`${index + 1}: kubectl ${line}`, async () => {
      const args = line
        .split(' ')
        .map((word) =>
          word
            .replace('LIST', join(directory, 'list.yaml'))
            .replace('FILE', join(directory, 'objects.yaml'))
            .replace('CHANGED', join(directory, 'changed.yaml'))
            .replace('WIDGET', join(directory, 'widget.json')),
        )
      const [expected, actual] = await Promise.all([real(...args), embedded(...args)])
      assert.deepEqual(comparable(actual), comparable(expected))
    })
  }
})

/** Without ages, addresses of Services, uids and versions. */
function comparable({ code, stdout, stderr }: KubectlResult): object {
  const texts = [stdout, stderr].map((text) =>
    text
      .replaceAll(/\b10\.(?:9[6-9]|10\d|11[01])\.\d+\.\d+\b/g, 'CLUSTER-IP')
      .replaceAll(/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, 'UID')
      .replaceAll(/ +(?:\d+[smh])+(?= |$)/gm, ' AGE')
      .replaceAll(/ {2,}/g, '  '),
  )
  return { code, stdout: texts[0], stderr: texts[1] }
}
