import type { TestedMutant } from '../mutant.ts'

/** By which a master, or an endpoint, could lose its address, or another keep one for too long. */
export const mutants: Readonly<Record<string, TestedMutant>> = {
  'proved-by-an-earlier-renewal': {
    broken: 'A renewal that was sent before a lease was seen to be missing proves that it has ended.',
    file: 'kubernetes-service/membership/fleet.ts',
    text: 'one.provedAtMs === undefined && one.sinceAtMs <= sentAtMs && isDecided(state, one.lease)',
    instead: 'one.provedAtMs === undefined && isDecided(state, one.lease)',
    tests: ['kubernetes-service/membership/step.test.ts'],
  },
  'recovered-though-its-server-fails': {
    broken: 'A master that renews after a common outage counts as recovered, though its server still fails.',
    file: 'kubernetes-service/membership/fleet.ts',
    text: '.filter((name) => !failing.includes(name))',
    instead: '',
    tests: ['kubernetes-service/membership/step.test.ts'],
  },
  'trust-an-answer-from-before-a-freeze': {
    broken: 'Confirms a departure by an answer that was under way while the sidecar was frozen.',
    file: 'kubernetes-service/membership/inputs.ts',
    text: 'Math.max(sentAtMs - probedAtMs, nowMs - sentAtMs) >= timings.unseenMs',
    instead: 'sentAtMs - probedAtMs >= timings.unseenMs',
    tests: ['kubernetes-service/membership/step.test.ts'],
  },
  'leave-when-the-time-is-over-though-nobody-serves': {
    broken: 'A stopped master leaves when its time to wait is over, though the first read shows that nobody serves.',
    file: 'kubernetes-service/membership/step.ts',
    text: `      if (othersReady(fleet.leases, self).length === 0) return go({ type: 'staying' })
      if (isConfirmed(state, departure) || nowMs >= step.untilAtMs) return go({ type: 'removing' })`,
    instead: `      if (isConfirmed(state, departure) || nowMs >= step.untilAtMs) return go({ type: 'removing' })
      if (othersReady(fleet.leases, self).length === 0) return go({ type: 'staying' })`,
    tests: ['kubernetes-service/membership/step.test.ts'],
  },
  'confirm-by-an-earlier-probe': {
    broken: 'Confirms a departure by a probe that was sent before it was read of.',
    file: 'kubernetes-service/membership/step.ts',
    text: 'const answerable = fleet.departures.filter(({ seenAtMs }) => server.probedAtMs >= seenAtMs)',
    instead: 'const answerable = fleet.departures',
    tests: ['kubernetes-service/membership/step.test.ts'],
  },
  'leave-by-leases-from-before-the-list': {
    broken: 'A master that leaves reads the leases before the list that it writes.',
    file: 'kubernetes-service/membership/runner.ts',
    text: `      const isWritten = await adapter.reconcile(async (stored) => {
        await this.refreshMembers(signal)
`,
    instead: `      await this.refreshMembers(signal)
      const isWritten = await adapter.reconcile(async (stored) => {
`,
    tests: ['bootstrap/leaving.test.ts'],
  },
  'an-old-list-overwrites-a-renewal': {
    broken: 'The older answer of a list makes it forget a renewal of which the watch told meanwhile.',
    file: 'kubernetes-service/leases/kubernetes.ts',
    text: `    const { eventCount } = this.#observer
    const listing = sinceOwnLease ? this.#listSinceCreation(query) : this.#listOldest(query)
    const items = await listing.catch((error: unknown) => {
      this.#observer.interrupted()
      throw error
    })
`,
    instead: `    const listing = sinceOwnLease ? this.#listSinceCreation(query) : this.#listOldest(query)
    const items = await listing.catch((error: unknown) => {
      this.#observer.interrupted()
      throw error
    })
    const { eventCount } = this.#observer
`,
    tests: ['kubernetes-service/leases/kubernetes-faults.test.ts'],
  },
  'leave-the-last-one-leaving': {
    broken: 'The record of a last master still says that it leaves after it could not be withdrawn.',
    file: 'kubernetes-service/withdraw.ts',
    text: '      await leases.mark(own, signal)\n',
    instead: '',
    tests: ['kubernetes-service/withdraw.test.ts'],
  },
  'withdraw-for-one-that-has-ended': {
    broken: 'Withdraws a master because of the Lease of another that has ended and is not listed any more.',
    file: 'kubernetes-service/withdraw.ts',
    text: 'live.some(({ found }) => found) ? listableLeases(live, await adapter.read(signal)) : live',
    instead: 'live',
    tests: ['kubernetes-service/withdraw.test.ts'],
  },
  'withdraw-for-one-whose-lease-has-lapsed': {
    broken: 'Withdraws a master because of a listed one whose last renewal is longer ago than its TTL.',
    file: 'kubernetes-service/withdraw.ts',
    text: 'if (others.some(({ lapsed }) => lapsed !== true)) return true',
    instead: 'if (others.length > 0) return true',
    tests: ['kubernetes-service/withdraw.test.ts'],
  },
  'withdraw-and-list-the-dead': {
    broken: 'A withdrawal adds the address of a Lease that has ended.',
    file: 'kubernetes-service/withdraw.ts',
    text: 'const listed = listedAddresses(placed).length > 0 ? placed : live',
    instead: 'const listed = live',
    tests: ['kubernetes-service/withdraw.test.ts'],
  },
  'withdraw-to-an-empty-list': {
    broken: 'A withdrawal empties the list though another master is alive, which is not ready.',
    file: 'kubernetes-service/withdraw.ts',
    text: 'const listed = listedAddresses(placed).length > 0 ? placed : live',
    instead: 'const listed = placed',
    tests: ['kubernetes-service/withdraw.test.ts'],
  },
  'remove-a-slice-as-it-is-by-now': {
    broken: 'Removes a slice though another master has written it since it was read.',
    file: 'kubernetes-service/guarded-writes/object-writer.ts',
    text: '{ uid, resourceVersion, signal }',
    instead: '{ uid, signal }',
    tests: ['kubernetes-service/dual-stack-adapter.test.ts'],
  },
  'allocate-for-a-deleted-service': {
    broken: 'Sets the bit of a Service that a live read has not found.',
    file: 'repair/bitmap/range-writer.ts',
    text: '      const add = held.numbers.minus(reading.set)\n',
    instead: "      const add = reading.origin === 'same-range' ? missing : held.numbers.minus(reading.set)\n",
    tests: ['repair/bitmap/repair.test.ts'],
  },
  'cleared-before-it-was-set': {
    broken: 'Takes a bit for cleared because a state from before the write that sets it lacks it.',
    file: 'repair/bitmap/range-state.ts',
    text: 'const cleared = coming.seen.minus(set)',
    instead: 'const cleared = coming.numbers.minus(set)',
    tests: ['repair/bitmap/range-state.test.ts'],
  },
  'take-back-the-address-of-another': {
    broken: 'Takes back an IPAddress that somebody else has made of the same name.',
    file: 'repair/ip-address/writer.ts',
    text: '{ name }, { uid, signal }',
    instead: '{ name }, { signal }',
    tests: ['repair/ip-address/races.test.ts'],
  },
  'a-gap-proves-use': {
    broken: 'Compares the bitmap after a gap in the watch with that before it.',
    file: 'repair/cluster-ip-repair.ts',
    text: '    if (change === undefined) this.#known.clear()\n    else {',
    instead: '    if (change !== undefined) {',
    tests: ['repair/cluster-ip-repair.test.ts'],
  },
  'ask-again-where-no-answer-came': {
    broken: 'Sends the next request over the connection on which the last one was not answered in time.',
    file: 'etcd/connect-pool.ts',
    text: "if ((signal.aborted || failure.error.code === 'Timeout') && member.server === server)",
    instead: 'if (signal.aborted && member.server === server)',
    tests: ['etcd/connect-etcd.test.ts'],
  },
  'deaf-after-a-live-read': {
    broken: 'Once a live read has found a change, what the watch tells of no longer counts.',
    file: 'kube/followed-object.ts',
    text: '      this.#events++\n      this.#read = undefined\n',
    instead: '      this.#events++\n',
    tests: ['kube/followed-object.test.ts'],
  },
  'await-a-deletion-that-failed': {
    broken: 'A slice whose deletion failed makes the copy count as old for ever.',
    file: 'endpointslice/slice-writer.ts',
    text: "        const { namespace, name = '', uid } = action.slice.metadata ?? {}\n        try {",
    instead:
      "        const { namespace, name = '', uid } = action.slice.metadata ?? {}\n        tracker.expectDeletion(action.slice)\n        try {",
    tests: ['endpointslice/slice-writer.test.ts'],
  },
  'count-on-a-slice-that-goes': {
    broken: 'Leaves endpoints to a slice that is being deleted.',
    file: 'endpointslice/slice-index.ts',
    text: 'return this.of(serviceKey).filter((slice) => !isBeingDeleted(slice))',
    instead: 'return this.of(serviceKey)',
    tests: ['endpointslice/controller.test.ts', 'endpointslice/mirroring/controller.test.ts'],
  },
  'wait-for-a-dead-watch': {
    broken: 'A dead Pod stays listed until the patience of a watch that delivers nothing is over.',
    file: 'kube/informer.ts',
    text: 'if (!this.#reflector.isDead(answeredMs)) return',
    instead: 'return',
    tests: ['endpointslice/old-copy.test.ts', 'endpoints/old-copy.test.ts'],
  },
  'list-while-a-list-arrives': {
    broken: 'A list that takes longer than a stale Service waits never ends.',
    file: 'kube/reflector.ts',
    text: "    if (this.#state.phase !== 'watching' || this.#pauseLeftMs > 0) return false\n",
    instead: '',
    tests: ['kube/informer.test.ts'],
  },
  'no-look-at-what-a-list-lacks': {
    broken: 'A slice that was made and deleted while no watch was open stays missing.',
    file: 'endpointslice/slice-tracker.ts',
    text: '        known.delete(uid)\n        keys.add(key)\n',
    instead: '        known.delete(uid)\n',
    tests: ['endpointslice/old-copy.test.ts', 'endpointslice/mirroring/controller.test.ts'],
  },
  'the-judge-overlooks-a-dead-etcd': {
    broken: 'A member whose etcd has failed since counts as in the same state.',
    file: 'verify/member-state.ts',
    text: 'every((key) => member[key]',
    instead: "every((key) => key === 'etcdFails' || member[key]",
    tests: ['verify/member-state.test.ts'],
  },
  'remember-a-deletion-for-ever': {
    broken: 'A Service that was deleted and created again loses its Endpoints when it loses its selector.',
    file: 'endpoints/controller.ts',
    text: '    this.#deleted.delete(key)\n    const nowMs = clock.monotonicMs()',
    instead: '    const nowMs = clock.monotonicMs()',
    tests: ['endpoints/controller.test.ts'],
  },
  'remember-a-node-that-is-gone': {
    broken: 'Of a Service with many Pods those on a deleted Node stay endpoints.',
    file: 'endpointslice/node-watch.ts',
    text: "      case 'deleted':\n        this.#version++\n",
    instead: "      case 'deleted':\n",
    tests: ['endpointslice/controller.test.ts'],
  },
  'no-look-at-the-second-slice': {
    broken: 'A change of the second slice, of which the watch tells, waits for the interval.',
    file: 'kubernetes-service/controller.ts',
    text: 'this.#follow(endpointSlices, requestEndpoints, secondSliceName',
    instead: 'this.#follow(endpointSlices, () => {}, secondSliceName',
    tests: ['kubernetes-service/controller.test.ts'],
  },
  'settled-by-one-of-two': {
    broken: 'Counts as settled when either the Service or the list is in sync.',
    file: 'kubernetes-service/controller.ts',
    text: 'Promise.all([this.#serviceLoop.settled, this.#endpointsLoop.settled]).then',
    instead: 'Promise.race([this.#serviceLoop.settled, this.#endpointsLoop.settled]).then',
    tests: ['kubernetes-service/controller.test.ts'],
  },
  'decide-before-the-watches': {
    broken: 'Decides when one watch shows the current state.',
    file: 'kubernetes-service/controller.ts',
    text: 'await Promise.all(this.#followed.map((object) => object.whenSynced(signal)))',
    instead: 'await Promise.race(this.#followed.map((object) => object.whenSynced(signal)))',
    tests: ['kubernetes-service/controller.test.ts'],
  },
  'forget-the-service-when-the-server-is-back': {
    broken: 'A second address waits for the interval when the server is back.',
    file: 'kubernetes-service/controller.ts',
    text: "if (available) this.#serviceLoop.request('objects')",
    instead: '',
    tests: ['kubernetes-service/controller-demand.test.ts'],
  },
  'attempts-that-are-never-renewed': {
    broken: 'After a second address was granted the next one has no attempts left.',
    file: 'kubernetes-service/service-writer.ts',
    text: `this.#present = 'configured'
    this.#refusals = 0`,
    instead: "this.#present = 'configured'",
    tests: ['kubernetes-service/service-writer.test.ts'],
  },
  'read-after-every-failure': {
    broken: 'After a failed update the next creation is delayed by a read.',
    file: 'kubernetes-service/service-writer.ts',
    text: 'this.#creationRefused = current === undefined',
    instead: 'this.#creationRefused = true',
    tests: ['kubernetes-service/service-writer.test.ts'],
  },
  'count-every-failure-as-a-refusal': {
    broken: 'A conflict counts as a refusal of the second address.',
    file: 'kubernetes-service/service-writer.ts',
    text: "if (second === undefined || !isKubeError(error, 'Invalid') || !this.#second.refused()) throw error",
    instead: 'if (second === undefined || !isKubeError(error) || !this.#second.refused()) throw error',
    tests: ['kubernetes-service/service-writer.test.ts'],
  },
  'a-slice-that-could-not-be-read-is-none': {
    broken: 'A slice that could not be read counts as missing.',
    file: 'kubernetes-service/endpoints-adapter.ts',
    text: 'ifFound(this.#api.get(endpointSlices, { ...KUBERNETES_SERVICE, name }, { signal }))',
    instead:
      'ifFound(this.#api.get(endpointSlices, { ...KUBERNETES_SERVICE, name }, { signal })).catch(() => undefined)',
    tests: ['kubernetes-service/endpoints-adapter.test.ts'],
  },
  'compare-the-slices-with-what-is-found': {
    broken: 'In a fight for Endpoints the slices are compared with the foreign list.',
    file: 'kubernetes-service/endpoints-adapter.ts',
    text: "action.type === 'none' ? observed.endpoints : action.object",
    instead: 'observed.endpoints',
    tests: ['kubernetes-service/endpoints-adapter.test.ts'],
  },
  'settled-without-its-second-slice': {
    broken: 'The second slice is not looked at.',
    file: 'kubernetes-service/endpoints-adapter.ts',
    text: 'slicePlans(wanted, secondAddresses, observed)',
    instead: 'slicePlans(wanted, [], observed)',
    tests: ['kubernetes-service/endpoints-adapter.test.ts'],
  },
  'unserved-without-asking-again': {
    broken: 'Does not ask again whether the server serves Endpoints.',
    file: 'kubernetes-service/endpoints-adapter.ts',
    text: ' && (await served.confirmUnserved(endpointsResource, signal))',
    instead: '',
    tests: ['kubernetes-service/endpoints-adapter.test.ts'],
  },
  'withdraw-an-earlier-life': {
    broken: 'Reports a master as withdrawn that was restarted before it could be marked.',
    file: 'kubernetes-service/withdraw.ts',
    text: `  if (marked === 'restarted') return withdraw(options, signal)
`,
    instead: '',
    tests: ['kubernetes-service/withdraw.test.ts'],
  },
  'found-and-renewed-but-not-added': {
    broken: 'A found lease that is renewed is added to the list at the next interval only.',
    file: 'kubernetes-service/membership/inputs.ts',
    text: 'expirySuspected !== true && found !== true',
    instead: 'expirySuspected !== true',
    tests: ['kubernetes-service/membership/inputs.test.ts'],
  },
  'stopped-before-the-first-lease-is-there': {
    broken: 'A master that is stopped while its first renewal is under way leaves that lease behind.',
    file: 'kubernetes-service/membership/inputs.ts',
    text: '        state.lease.request !== undefined ||\n',
    instead: '',
    tests: ['kubernetes-service/membership/inputs-requests.test.ts'],
  },
  'a-last-one-that-never-ends': {
    broken: 'A last master whose list cannot be written probes its server instead of ending.',
    file: 'kubernetes-service/membership/inputs.ts',
    text: "      if (leaving.type === 'listing') return end(state, 'last-one', turn)\n",
    instead: '',
    tests: ['kubernetes-service/membership/inputs-requests.test.ts'],
  },
  'a-last-one-that-leaves-after-a-conflict': {
    broken: 'A last master that must stay listed leaves after a conflict.',
    file: 'kubernetes-service/membership/inputs.ts',
    text: '{ type: leaving.type, sent: false }',
    instead: "{ type: 'writing', sent: false }",
    tests: ['kubernetes-service/membership/inputs-requests.test.ts'],
  },
  'a-plan-cache-of-another-service': {
    broken: 'Keeps the cached endpoints, with their ports, of a Service that has changed.',
    file: 'endpointslice/plan-cache.ts',
    text: 'known.service !== service || known.nodesVersion !== nodesVersion',
    instead: 'known.nodesVersion !== nodesVersion',
    tests: ['endpointslice/plan-cache.test.ts'],
  },
  'a-plan-cache-for-every-change': {
    broken: 'Updates the cached endpoints even if nearly all Pods have changed.',
    file: 'endpointslice/plan-cache.ts',
    text: '      if (removed.length * 4 > before.length) return undefined\n',
    instead: '',
    tests: ['endpointslice/plan-cache.test.ts'],
  },
  'families-of-an-unknown-cluster-ip': {
    broken: 'Lists no IPv6 Pod for a headless Service that has no families.',
    file: 'endpoints/wanted-subsets.ts',
    text: "clusterIP === '' || clusterIP === 'None') return undefined",
    instead: "clusterIP === '') return undefined",
    tests: ['endpoints/wanted-subsets.test.ts'],
  },
  'the-last-address-of-a-pod': {
    broken: 'Lists the last address that a Pod has of a family.',
    file: 'endpoints/wanted-subsets.ts',
    text: 'const [ip] = podAddresses(pod, family)',
    instead: 'const ip = podAddresses(pod, family).at(-1)',
    tests: ['endpoints/wanted-subsets.test.ts'],
  },
  'the-ports-of-other-pods': {
    broken: 'Lists a port at the Pods of others that are counted with the same digits.',
    file: 'endpoints/wanted-subsets.ts',
    text: 'getOrMake(groups, offering.join(), ',
    instead: "getOrMake(groups, offering.join(''), ",
    tests: ['endpoints/wanted-subsets.test.ts'],
  },
  'a-deleted-selector-takes-the-pods': {
    broken: 'Forgets the Pods of a label with one of the Services that select by it.',
    file: 'workloads/selector-index.ts',
    text: '    index.buckets.get(value)?.selecting.delete(selecting)\n    dropIfEmpty(index, value)\n',
    instead: '    index.buckets.delete(value)\n',
    tests: ['workloads/selector-index.test.ts'],
  },
  'a-key-ends-with-its-first-selector': {
    broken: 'Forgets a label key while other Services select by it.',
    file: 'workloads/selector-index.ts',
    text: '    if (index.selectors === 0) this.#keys.delete(key)\n',
    instead: '    this.#keys.delete(key)\n',
    tests: ['workloads/selector-index.test.ts'],
  },
  'an-unguarded-reuse': {
    broken: 'Reuses a slice whatever its version.',
    file: 'endpointslice/slice-actions.ts',
    text: 'metadata: { ...last.metadata, name, resourceVersion }',
    instead: 'metadata: { ...last.metadata, name }',
    tests: ['endpointslice/slice-actions.test.ts'],
  },
  'reuse-of-another-address-type': {
    broken: 'Reuses a slice of another address type, which no server accepts.',
    file: 'endpointslice/slice-actions.ts',
    text: 'last !== undefined && slice.addressType === last.addressType && ',
    instead: 'last !== undefined && ',
    tests: ['endpointslice/slice-actions.test.ts'],
  },
  'an-owner-of-another-kind': {
    broken: 'Takes a slice for that of an earlier Service because its first owner is something else.',
    file: 'endpointslice/slice-actions.ts',
    text: "    if ((owner.uid ?? '') === uid && owner.kind === 'Service' && owner.apiVersion === 'v1') return true\n",
    instead: "    return (owner.uid ?? '') === uid && owner.kind === 'Service' && owner.apiVersion === 'v1'\n",
    tests: ['endpointslice/slice-actions.test.ts'],
  },
  'a-pod-without-a-node': {
    broken: 'Does not leave out a Pod that has no Node yet.',
    file: 'endpointslice/desired-endpoints.ts',
    text: 'if (node === undefined && service',
    instead: "if (node === undefined && nodeName !== '' && service",
    tests: ['endpointslice/desired-endpoints.test.ts'],
  },
}
