import { endpointSlices, endpoints } from '../../kube/resources.ts'
import { parseAddress, tryParseAddress } from '../../net/address.ts'
import { formatHostPort } from '../../net/host-port.ts'
import { equalJson } from '../../runtime/equal-json.ts'
import { ageColumn, firstThree, nameColumn } from '../columns.ts'
import { type Draft, type Kind, listMember, type Members } from '../kind.ts'
import {
  canonicalIpFault,
  dnsLabelFault,
  dnsSubdomainFault,
  endpointAddressFault,
  ipFault,
  labelValueFault,
} from '../names.ts'
import type { FieldErrors } from '../refusal.ts'
import * as s from '../schema.ts'
import type { StoredObject } from '../store.ts'
import { hasSameContent, withFirstGeneration, withGeneration } from './generations.ts'

const address = s.object({ ip: s.string, hostname: s.string, nodeName: s.string, targetRef: s.any })

export const protocols = ['SCTP', 'TCP', 'UDP']

export const endpointsKind: Kind = {
  resource: endpoints,
  deprecation: 'v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice',
  shortNames: ['ep'],
  columns: [nameColumn, { name: 'Endpoints', cell: endpointsText }, ageColumn],
  schema: s.kindSchema({
    subsets: s.list(
      s.object({
        addresses: s.list(address),
        notReadyAddresses: s.list(address),
        ports: s.list(s.object({ name: s.string, port: s.integer, protocol: s.string, appProtocol: s.string })),
      }),
    ),
  }),
  createOnUpdate: true,
  withDefaults: (draft) =>
    draft.subsets === undefined ? draft : { ...draft, subsets: subsetsOf(draft).map(withProtocols) },
  validate(draft, errors) {
    for (const [index, subset] of subsetsOf(draft).entries()) validateSubset(subset, `subsets[${index}]`, errors)
  },
}

/** The first three pairs of a ready address and a port of its subset, and how many more there are. */
function endpointsText(object: StoredObject): string {
  const subsets = subsetsOf(object)
  if (subsets.length === 0) return '<none>'
  const counts = subsets.map(
    (subset) => listMember(subset, 'addresses').length * (listMember(subset, 'ports').length || 1),
  )
  return firstThree(
    addressesWithPorts(subsets),
    counts.reduce((sum, count) => sum + count, 0),
  )
}

/**
 * All ready addresses, each with each port of its subset, or alone if the subset has no ports. A generator, because ten
 * thousand addresses with a thousand ports each would fill the memory.
 */
function* addressesWithPorts(subsets: readonly Members[]): Generator<string, void, undefined> {
  for (const subset of subsets) {
    const ips = listMember(subset, 'addresses').map(({ ip }) => String(ip))
    const ports = listMember(subset, 'ports')
    if (ports.length === 0) yield* ips
    for (const { port } of ports) for (const ip of ips) yield formatHostPort({ host: ip, port: Number(port) })
  }
}

function subsetsOf(draft: Draft): readonly Members[] {
  return listMember(draft, 'subsets')
}

function withProtocols(subset: Members): Members {
  const ports = listMember(subset, 'ports')
  if (ports.every((port) => port.protocol !== undefined)) return subset
  return { ...subset, ports: ports.map((port) => ({ ...port, protocol: port.protocol ?? 'TCP' })) }
}

function validateSubset(subset: Members, path: string, errors: FieldErrors): void {
  const lists = ['addresses', 'notReadyAddresses'] as const
  if (lists.every((name) => listMember(subset, name).length === 0)) {
    errors.required(path, 'must specify `addresses` or `notReadyAddresses`')
  }
  for (const name of lists) {
    for (const [index, item] of listMember(subset, name).entries())
      validateAddress(item, `${path}.${name}[${index}]`, errors)
  }
  const ports = listMember(subset, 'ports')
  for (const [index, port] of ports.entries()) validatePort(port, ports.length > 1, `${path}.ports[${index}]`, errors)
}

function validateAddress(item: Members, path: string, errors: FieldErrors): void {
  const ip = String(item.ip ?? '')
  const parsed = tryParseAddress(ip)
  errors.invalid(`${path}.ip`, ip, parsed === undefined ? ipFault(ip) : endpointAddressFault(parsed))
  // Upstream's check for reserved ranges reports an unreadable address a second time.
  if (parsed === undefined) errors.invalid(`${path}.ip`, ip, 'must be a valid IP address')
  checkName(item.hostname, `${path}.hostname`, dnsLabelFault, errors)
  checkName(item.nodeName, `${path}.nodeName`, dnsSubdomainFault, errors)
}

function validatePort(port: Members, nameRequired: boolean, path: string, errors: FieldErrors): void {
  const name = String(port.name ?? '')
  if (name === '' && nameRequired) errors.required(`${path}.name`)
  if (name !== '') checkName(name, `${path}.name`, dnsLabelFault, errors)
  checkPort(port.port ?? 0, `${path}.port`, errors)
  checkOneOf(port.protocol, protocols, `${path}.protocol`, errors)
}

export function checkPort(port: unknown, path: string, errors: FieldErrors): void {
  if (typeof port !== 'number' || port < 1 || port > 65535)
    errors.invalid(path, port, 'must be between 1 and 65535, inclusive')
}

export function checkOneOf(value: unknown, allowed: readonly string[], path: string, errors: FieldErrors): void {
  if (!allowed.includes(String(value))) errors.notSupported(path, value, allowed)
}

/** Refuses a name in which `faultOf` finds a fault. A missing or empty name passes. */
export function checkName(
  name: unknown,
  path: string,
  faultOf: (text: string) => string | undefined,
  errors: FieldErrors,
): void {
  if (typeof name === 'string' && name !== '') errors.invalid(path, name, faultOf(name))
}

const addressTypes = ['FQDN', 'IPv4', 'IPv6']
const MAX_ENDPOINTS = 1000
const MAX_ADDRESSES = 100
const MAX_PORTS = 20_000

export const endpointSliceKind: Kind = {
  resource: endpointSlices,
  schema: s.kindSchema({
    addressType: s.string,
    endpoints: s.list(
      s.object({
        addresses: s.strings,
        conditions: s.object({ ready: s.boolean, serving: s.boolean, terminating: s.boolean }),
        hostname: s.string,
        nodeName: s.string,
        zone: s.string,
        targetRef: s.any,
        hints: s.any,
        deprecatedTopology: s.atomicMap,
      }),
    ),
    ports: s.list(s.object({ name: s.string, protocol: s.string, port: s.integer, appProtocol: s.string })),
  }),
  columns: [
    nameColumn,
    { name: 'AddressType', cell: (slice) => String(slice.addressType) },
    { name: 'Ports', cell: slicePortsText },
    {
      name: 'Endpoints',
      cell: (slice) => {
        const all = listMember(slice, 'endpoints').flatMap(({ addresses }) => addresses as readonly string[])
        return firstThree(all, all.length) || '<unset>'
      },
    },
    ageColumn,
  ],
  withDefaults,
  forCreate: withFirstGeneration,
  forUpdate(draft, live) {
    const hasSameLabels = equalJson(draft.metadata?.labels ?? {}, live.metadata.labels ?? {})
    return withGeneration(draft, live, hasSameLabels && hasSameContent(draft, live))
  },
  validate(draft, errors, live) {
    const addressType = String(draft.addressType ?? '')
    if (live !== undefined && addressType !== live.addressType) {
      errors.invalid('addressType', addressType, 'field is immutable')
    }
    if (addressType === '') errors.required('addressType')
    else checkOneOf(addressType, addressTypes, 'addressType', errors)
    validatePorts(draft, errors)
    const endpoints = listMember(draft, 'endpoints')
    if (endpoints.length > MAX_ENDPOINTS) errors.tooMany('endpoints', endpoints.length, MAX_ENDPOINTS)
    else if (!equalJson(endpoints, live?.endpoints)) {
      for (const [index, endpoint] of endpoints.entries())
        validateEndpoint(endpoint, addressType, `endpoints[${index}]`, errors)
    }
  },
}

/** Adds the defaults. Afterwards `endpoints` and `ports` are present; an empty list becomes null. */
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

function validatePorts(draft: Draft, errors: FieldErrors): void {
  const ports = listMember(draft, 'ports')
  if (ports.length > MAX_PORTS) errors.tooMany('ports', ports.length, MAX_PORTS)
  const names = new Set<unknown>()
  for (const [index, port] of ports.entries()) {
    const path = `ports[${index}]`
    checkName(port.name, `${path}.name`, dnsLabelFault, errors)
    if (names.has(port.name)) errors.duplicate(`${path}.name`, port.name)
    names.add(port.name)
    checkOneOf(port.protocol, protocols, `${path}.protocol`, errors)
  }
}

function validateEndpoint(endpoint: Members, addressType: string, path: string, errors: FieldErrors): void {
  const addresses = (endpoint.addresses ?? []) as readonly string[]
  if (addresses.length === 0) errors.required(`${path}.addresses`, 'must contain at least 1 address')
  else if (addresses.length > MAX_ADDRESSES) errors.tooMany(`${path}.addresses`, addresses.length, MAX_ADDRESSES)
  for (const [index, address] of addresses.entries()) {
    validateSliceAddress(address, addressType, `${path}.addresses`, index, errors)
  }
  checkName(endpoint.nodeName, `${path}.nodeName`, dnsSubdomainFault, errors)
  checkName(endpoint.zone, `${path}.zone`, labelValueFault, errors)
  checkName(endpoint.hostname, `${path}.hostname`, dnsLabelFault, errors)
}

function validateSliceAddress(
  text: string,
  addressType: string,
  path: string,
  index: number,
  errors: FieldErrors,
): void {
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
  const address = parseAddress(text)
  if (`IPv${address.family}` !== addressType) errors.invalid(path, text, `must be an ${addressType} address`)
  errors.invalid(at, text, endpointAddressFault(address))
}

function slicePortsText(slice: StoredObject): string {
  const ports = listMember(slice, 'ports').map(({ port, name }) => String(port ?? name ?? '*'))
  return firstThree(ports, ports.length) || '<unset>'
}
