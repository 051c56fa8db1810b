import { endpointSlices } from '../../kube/resources.ts'
import { tryParseAddress } from '../../net/address.ts'
import type { FieldErrors } from '../field-errors.ts'
import { canonicalIpFault, endpointAddressFault } from '../ip-text.ts'
import { type Draft, type Kind, listMember } from '../kind.ts'
import { dnsLabelFault, dnsSubdomainFault, labelFault } from '../names.ts'
import { equalJson } from '../plain-json.ts'
import { any, atomicMap, boolean, integer, kindSchema, list, object, string, strings } from '../schema.ts'
import { checkName, protocols } from './endpoints.ts'

type Members = Readonly<Record<string, unknown>>

const addressTypes = ['FQDN', 'IPv4', 'IPv6']
const maxEndpoints = 1000
const maxAddresses = 100
const maxPorts = 20_000

export const endpointSliceKind: Kind = {
  resource: endpointSlices,
  singular: 'endpointslice',
  schema: kindSchema({
    addressType: string,
    endpoints: list(
      object({
        addresses: strings,
        conditions: object({ ready: boolean, serving: boolean, terminating: boolean }),
        hostname: string,
        nodeName: string,
        zone: string,
        targetRef: any,
        hints: any,
        deprecatedTopology: atomicMap,
      }),
    ),
    ports: list(object({ name: string, protocol: string, port: integer, appProtocol: string })),
  }),
  hasStatus: false,
  createOnUpdate: false,
  nameFault: dnsSubdomainFault,
  withDefaults,
  forCreate: (draft) => ({ ...draft, metadata: { ...draft.metadata, generation: 1 } }),
  forUpdate(draft, live) {
    const generation = live.metadata.generation ?? 0
    return isSame(draft, live) ? draft : { ...draft, metadata: { ...draft.metadata, generation: generation + 1 } }
  },
  validate(draft, errors, live) {
    const addressType = String(draft.addressType ?? '')
    if (live !== undefined && addressType !== live.addressType) {
      errors.invalid('addressType', addressType, 'field is immutable')
    }
    if (addressType === '') errors.required('addressType')
    else if (!addressTypes.includes(addressType)) errors.notSupported('addressType', addressType, addressTypes)
    validatePorts(draft, errors)
    const endpoints = listMember(draft, 'endpoints')
    if (endpoints.length > maxEndpoints) errors.tooMany('endpoints', endpoints.length, maxEndpoints)
    else if (!equalJson(endpoints, live?.endpoints)) {
      for (const [index, endpoint] of endpoints.entries())
        validateEndpoint(endpoint, addressType, `endpoints[${index}]`, errors)
    }
  },
}

/** Both lists are written even when they are empty, and then as null. */
function withDefaults(draft: Draft): Draft {
  const endpoints = listMember(draft, 'endpoints').map(withConditions)
  const ports = listMember(draft, 'ports').map(withPortDefaults)
  return { ...draft, endpoints: endpoints.length > 0 ? endpoints : null, ports: ports.length > 0 ? ports : null }
}

function withConditions(endpoint: Members): Members {
  if (endpoint.conditions !== undefined && endpoint.deprecatedTopology === undefined) return endpoint
  const { deprecatedTopology: _dropped, ...rest } = endpoint
  return { ...rest, conditions: endpoint.conditions ?? {} }
}

function withPortDefaults(port: Members): Members {
  if (port.name !== undefined && port.protocol !== undefined) return port
  return { ...port, name: port.name ?? '', protocol: port.protocol ?? 'TCP' }
}

/** Generation counts changes of everything but metadata, and of labels. */
function isSame(draft: Draft, live: Draft): boolean {
  const { metadata, ...rest } = draft
  const { metadata: liveMetadata, ...liveRest } = live
  const content = { ...rest, kind: undefined, apiVersion: undefined }
  const liveContent = { ...liveRest, kind: undefined, apiVersion: undefined }
  return equalJson(content, liveContent) && equalJson(metadata?.labels ?? {}, liveMetadata?.labels ?? {})
}

function validatePorts(draft: Draft, errors: FieldErrors): void {
  const ports = listMember(draft, 'ports')
  if (ports.length > maxPorts) errors.tooMany('ports', ports.length, maxPorts)
  const names = new Set<unknown>()
  for (const [index, port] of ports.entries()) {
    const path = `ports[${index}]`
    checkName(port.name, `${path}.name`, dnsLabelFault, errors)
    if (names.has(port.name)) errors.duplicate(`${path}.name`, port.name)
    names.add(port.name)
    if (!protocols.includes(String(port.protocol))) errors.notSupported(`${path}.protocol`, port.protocol, protocols)
  }
}

function validateEndpoint(endpoint: Members, addressType: string, path: string, errors: FieldErrors): void {
  const addresses = (endpoint.addresses ?? []) as readonly string[]
  if (addresses.length === 0) errors.required(`${path}.addresses`, 'must contain at least 1 address')
  else if (addresses.length > maxAddresses) errors.tooMany(`${path}.addresses`, addresses.length, maxAddresses)
  for (const [index, address] of addresses.entries()) {
    validateAddress(address, addressType, `${path}.addresses`, index, errors)
  }
  checkName(endpoint.nodeName, `${path}.nodeName`, dnsSubdomainFault, errors)
  checkName(endpoint.zone, `${path}.zone`, labelFault, errors)
  checkName(endpoint.hostname, `${path}.hostname`, dnsLabelFault, errors)
}

function validateAddress(text: string, addressType: string, path: string, index: number, errors: FieldErrors): void {
  const at = `${path}[${index}]`
  if (addressType === 'FQDN') {
    checkName(text, at, dnsSubdomainFault, errors)
    return
  }
  if (addressType !== 'IPv4' && addressType !== 'IPv6') return
  const fault = canonicalIpFault(text)
  if (fault !== undefined) {
    errors.invalid(at, text, fault)
    return
  }
  const address = tryParseAddress(text)
  if (address === undefined) return
  if (`IPv${address.family}` !== addressType) errors.invalid(path, text, `must be an ${addressType} address`)
  const unfit = endpointAddressFault(address)
  if (unfit !== undefined) errors.invalid(at, text, unfit)
}
