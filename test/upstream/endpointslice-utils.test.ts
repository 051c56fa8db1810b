// Upstream's tables of the small functions. Upstream compares lists of ports in the order of the Service; our lists are
// in the order in which they are written. The first case of ServiceControllerKey has no slice, which our function does
// not allow.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { endpointOf } from '../../src/endpointslice/endpoint.ts'
import type { AddressType } from '../../src/endpointslice/slice.ts'
import {
  addressTypesOf,
  type EndpointPort,
  labelsDiffer,
  labelsOfSlices,
  portsInOrder,
  portsOfPods,
  serviceKeyOf,
} from '../../src/endpointslice/slice.ts'
import { newSlice } from '../../src/endpointslice/slice-actions.ts'
import { managedByController } from '../../src/endpointslice/slices-plan.ts'
import { asksForTopology } from '../../src/endpointslice/topology/hints-plan.ts'
import type { EndpointSlice, Node, Pod, Service } from '../../src/kube/resources.ts'
import { findPort, type ServicePort } from '../../src/workloads/pod-rules.ts'
import { assertSame } from './same.ts'

interface UtilsTables {
  readonly TestNewEndpointSlice: readonly {
    readonly name: string
    readonly service: Service
    readonly ports: readonly EndpointPort[]
    readonly addressType: AddressType
    readonly want: EndpointSlice
  }[]
  readonly TestPodToEndpoint: readonly {
    readonly name: string
    readonly pod: Pod
    readonly node?: Node
    readonly service: Service
    readonly want: object
  }[]
  readonly TestServiceControllerKey: readonly {
    readonly name: string
    readonly slice?: EndpointSlice
    readonly want: string
  }[]
  readonly TestGetEndpointPorts: readonly {
    readonly name: string
    readonly service: Service
    readonly pod?: Pod
    readonly want: readonly EndpointPort[]
  }[]
  readonly TestSetEndpointSliceLabels: readonly {
    readonly name: string
    readonly slice: EndpointSlice
    readonly service: Service
    readonly labels: Readonly<Record<string, string>>
    readonly changed: boolean
  }[]
  readonly TestSupportedServiceAddressType: readonly {
    readonly name: string
    readonly service: Service
    readonly want: readonly AddressType[]
  }[]
  readonly Test_hintsEnabled: readonly {
    readonly name: string
    readonly annotations?: Readonly<Record<string, string>>
    readonly want: boolean
  }[]
  readonly TestFindPort: readonly {
    readonly name: string
    readonly containers?: NonNullable<Pod['spec']>['containers']
    readonly initContainers?: NonNullable<Pod['spec']>['containers']
    readonly port: number | string
    readonly want: number
    readonly pass: boolean
  }[]
}

const { tables } = JSON.parse(readFileSync(new URL('./data/endpointslice-utils.json', import.meta.url), 'utf8')) as {
  readonly tables: UtilsTables
}

test('the 8 tables are complete', () => {
  assert.deepEqual(
    Object.values(tables).map(({ length }) => length),
    [6, 10, 3, 4, 13, 10, 19, 14],
  )
})

for (const { name, service, ports, addressType, want } of tables.TestNewEndpointSlice) {
  test(`newEndpointSlice: ${name}`, () => {
    const labels = labelsOfSlices(service, managedByController)
    const {
      apiVersion: _apiVersion,
      kind: _kind,
      ...slice
    } = newSlice(service, {
      addressType,
      labels,
      ports,
      endpoints: [],
    })
    assertSame(slice, want, 'the slice')
  })
}

for (const { name, pod, node, service, want } of tables.TestPodToEndpoint) {
  test(`podToEndpoint: ${name}`, () => assertSame(endpointOf(pod, node, service, 'IPv4'), want, 'the endpoint'))
}

for (const { name, slice, want } of tables.TestServiceControllerKey) {
  test(`ServiceControllerKey: ${name}`, () =>
    assert.equal(slice === undefined ? '' : (serviceKeyOf(slice) ?? ''), want))
}

for (const { name, service, pod, want } of tables.TestGetEndpointPorts) {
  test(`getEndpointPorts: ${name}`, () => {
    assertSame(portsOfPods(service)(pod ?? ({} as Pod)), portsInOrder(want), 'the ports')
  })
}

for (const { name, slice, service, labels, changed } of tables.TestSetEndpointSliceLabels) {
  test(`setEndpointSliceLabels: ${name}`, () => {
    const wanted = labelsOfSlices(service, managedByController)
    assert.deepEqual(wanted, labels)
    assert.equal(labelsDiffer(slice, wanted), changed)
  })
}

for (const { name, service, want } of tables.TestSupportedServiceAddressType) {
  test(`getAddressTypesForService: ${name}`, () => assert.deepEqual(new Set(addressTypesOf(service)), new Set(want)))
}

for (const { name, annotations, want } of tables.Test_hintsEnabled) {
  test(`hintsEnabled: ${name}`, () => {
    assert.equal(asksForTopology({ metadata: annotations === undefined ? {} : { annotations } }), want)
  })
}

for (const { name, containers = [], initContainers = [], port, want, pass } of tables.TestFindPort) {
  test(`FindPort: ${name}`, () => {
    const pod: Pod = { spec: { containers, initContainers } }
    const found = findPort(pod, { protocol: 'TCP', targetPort: port } as unknown as ServicePort)
    assert.equal(found, pass ? want : undefined)
  })
}
