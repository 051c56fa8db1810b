import type { TestedMutant } from '../mutant.ts'

export const mutants: Readonly<Record<string, TestedMutant>> = {
  'withdraw-without-preconditions': {
    broken: 'Deletes its own Lease whoever has made it anew since it was read.',
    file: 'kubernetes-service/leases/kubernetes.ts',
    text: `      await deleteAsRead(this.#api, current, { urgent: true, signal })
      this.#own = undefined`,
    instead: `      const { namespace, name = '' } = current.metadata ?? {}
      await this.#api.delete(leases, { namespace, name }, { urgent: true, signal })
      this.#own = undefined`,
    tests: ['kubernetes-service/leases/master-leases.test.ts', 'kubernetes-service/leases/kubernetes-faults.test.ts'],
  },
  'forget-a-co-holder-too-soon': {
    broken: 'Forgets a kube-apiserver at its address after two of its own short lease times.',
    file: 'kubernetes-service/leases/etcd/leases.ts',
    text: 'Math.max(options.ttlMs, KUBE_APISERVER_TTL_MS)',
    instead: 'Math.min(options.ttlMs, KUBE_APISERVER_TTL_MS)',
    tests: ['kubernetes-service/leases/etcd/leases.test.ts'],
  },
  'empty-the-list-when-withdrawn': {
    broken: 'A withdrawn master may leave the list empty.',
    file: 'kubernetes-service/membership/step.ts',
    text: "mayEmpty: isLeaving && phase.mode === 'always'",
    instead: 'mayEmpty: isLeaving',
    tests: ['kubernetes-service/membership/step.test.ts', 'kubernetes-service/membership/phase-table.test.ts'],
  },
  'say-before-it-is-written': {
    broken: 'Takes its record for written when the request is sent.',
    file: 'kubernetes-service/membership/state.ts',
    text: 'return { ...state, lease: { ...state.lease, request: { type, holder, sentAtMs: nowMs } } }',
    instead: 'return { ...state, self: holder, lease: { ...state.lease, request: { type, holder, sentAtMs: nowMs } } }',
    tests: ['kubernetes-service/membership/step.test.ts'],
  },
  'withdrawn-for-an-earlier-life': {
    broken: 'A new life ends because an earlier one was withdrawn.',
    file: 'kubernetes-service/membership/inputs.ts',
    text: "if (says === 'withdrawn' && instanceId === state.self.instanceId)",
    instead: "if (says === 'withdrawn')",
    tests: ['kubernetes-service/membership/step.test.ts'],
  },
  'known-after-a-failed-read': {
    broken: 'Takes the members for known although the last read of them failed.',
    file: 'kubernetes-service/controller.ts',
    text: `      this.#known = false
      this.#noteDemand()`,
    instead: '      this.#noteDemand()',
    tests: ['kubernetes-service/other-writers.test.ts'],
  },
  'begin-at-the-same-moment': {
    broken: 'A life that begins at the very moment of an earlier one does not come after it.',
    file: 'kubernetes-service/members.ts',
    text: 'latest < self.startedAt) return self',
    instead: 'latest <= self.startedAt) return self',
    tests: ['kubernetes-service/members.test.ts'],
  },
  'count-a-claim-as-a-correction': {
    broken: 'Counts the place that it takes at an interval as one of the corrections between two intervals.',
    file: 'kubernetes-service/reconcilers/master-count.ts',
    text: "if (!this.#displaced && plan.type === 'update'",
    instead: "if (plan.type === 'update'",
    tests: ['kubernetes-service/reconcilers/master-count.test.ts'],
  },
  'count-every-update-as-a-correction': {
    broken: 'Counts a change of ports or labels as a correction of who is listed.',
    file: 'kubernetes-service/reconcilers/master-count.ts',
    text: " && plan.reasons.includes('addresses')) this.#correctionsLeft -= 1",
    instead: ') this.#correctionsLeft -= 1',
    tests: ['kubernetes-service/reconcilers/master-count.test.ts'],
  },
  'date-a-renewal-by-its-answer': {
    broken: 'Takes a lease to last from when the renewal was answered, not from when it was sent.',
    file: 'kubernetes-service/membership/inputs.ts',
    text: 'renewedAtMs: request.sentAtMs, missing',
    instead: 'renewedAtMs: nowMs, missing',
    tests: ['kubernetes-service/membership/step.test.ts'],
  },
  'read-the-slices-last': {
    broken: 'Reads the slices after the Endpoints that they follow.',
    file: 'kubernetes-service/endpoints-adapter.ts',
    text: `    const names = [KUBERNETES_SERVICE.name, secondSliceName('IPv4'), secondSliceName('IPv6')]
    const [slice, ...seconds] = await Promise.all(
      names.map((name) => ifFound(this.#api.get(endpointSlices, { ...KUBERNETES_SERVICE, name }, { signal }))),
    )
    const secondSlices = seconds.filter((second) => second !== undefined)
    return { slice, secondSlices, endpoints: await this.getEndpoints(signal) }`,
    instead: `    const endpoints = await this.getEndpoints(signal)
    const names = [KUBERNETES_SERVICE.name, secondSliceName('IPv4'), secondSliceName('IPv6')]
    const [slice, ...seconds] = await Promise.all(
      names.map((name) => ifFound(this.#api.get(endpointSlices, { ...KUBERNETES_SERVICE, name }, { signal }))),
    )
    const secondSlices = seconds.filter((second) => second !== undefined)
    return { slice, secondSlices, endpoints }`,
    tests: ['kubernetes-service/dual-stack-adapter.test.ts', 'kubernetes-service/other-writers.test.ts'],
  },
  'suspect-a-master-that-has-left': {
    broken: 'Keeps a master in the list as suspected although it announced its departure.',
    file: 'kubernetes-service/membership/fleet.ts',
    text: 'self.instanceId || hasLeft(other)) continue',
    instead: 'self.instanceId) continue',
    tests: ['kubernetes-service/membership/step.test.ts'],
  },
  'withdraw-the-last-without-a-list': {
    broken: 'Takes a lease that is gone for a withdrawal although nobody is left to update the list.',
    file: 'kubernetes-service/withdraw.ts',
    text: 'if (!isAway || othersReady(await leases.list(signal), own).length === 0) throw error',
    instead: 'if (!isAway) throw error',
    tests: ['kubernetes-service/withdraw.test.ts'],
  },
  'withdraw-any-master-of-the-host': {
    broken: 'Without an address it withdraws the first of several masters on a host.',
    file: 'kubernetes-service/withdraw.ts',
    text: 'if (another !== undefined) {',
    instead: "if (another !== undefined && wanted !== '') {",
    tests: ['kubernetes-service/withdraw.test.ts'],
  },
  'serves-only-while-ready': {
    broken:
      'With the gate startup a server that was ready once and answers that it is not counts as one that does not serve.',
    file: 'kubernetes-service/readiness-monitor.ts',
    text: 'this.#serves = wasReady ? answer.answered : isServing(answer)',
    instead: 'this.#serves = isServing(answer)',
    tests: ['bootstrap/startup-gate.test.ts'],
  },
  'probes-a-failing-server-seldom': {
    broken: 'Without the duty kubernetes-service a server that fails is probed every ten seconds, like a ready one.',
    file: 'kubernetes-service/readiness-monitor.ts',
    text: "this.#state.phase === 'ready' && this.#state.failures === 0 ?",
    instead: "this.#state.phase === 'ready' ?",
    tests: ['kubernetes-service/readiness-monitor.test.ts'],
  },
  'a-leaving-master-needs-a-lease': {
    broken: 'A master that leaves does not count any more as soon as its lease is missing.',
    file: 'kubernetes-service/leases/etcd/snapshot.ts',
    text: "const needsLease = holder.state === 'ready' || holder.state === 'failing'",
    instead: 'const needsLease = hasLease(holder.state)',
    tests: ['kubernetes-service/leases/etcd/snapshot.test.ts'],
  },
  'a-failing-master-needs-no-lease': {
    broken: 'A master that fails counts for as long as its record, which outlives its lease.',
    file: 'kubernetes-service/leases/etcd/snapshot.ts',
    text: "const needsLease = holder.state === 'ready' || holder.state === 'failing'",
    instead: "const needsLease = holder.state === 'ready'",
    tests: ['kubernetes-service/leases/etcd/snapshot.test.ts'],
  },
  'the-lease-of-a-leaving-master-is-free': {
    broken: 'A master that leaves counts as one without a lease.',
    file: 'kubernetes-service/leases/etcd/snapshot.ts',
    text: "state === 'ready' || state === 'failing' || state === 'leaving'",
    instead: "state === 'ready' || state === 'failing'",
    tests: ['kubernetes-service/leases/etcd/snapshot.test.ts'],
  },
  'renewed-by-its-record': {
    broken: 'Takes the revision of the record for that of the lease, so that a renewal is not noticed.',
    file: 'kubernetes-service/leases/etcd/snapshot.ts',
    text: 'live.push({ address, holder, ...renewed })',
    instead: 'live.push({ address, holder, ...renewed, renewal: String(record.modRevision) })',
    tests: ['kubernetes-service/leases/etcd/snapshot.test.ts'],
  },
  'last-master-leaves-for-a-lease-that-never-ends': {
    broken: 'The last master that lives leaves the list, because a lease without an expiry counts as a serving master.',
    file: 'kubernetes-service/members.ts',
    text: 'isReady(lease) && lease.neverEnds !== true && !isHeldBy(lease, self)',
    instead: 'isReady(lease) && !isHeldBy(lease, self)',
    tests: ['kubernetes-service/members.test.ts'],
  },
  'withdraw-deletes-the-lease-of-a-kube-apiserver': {
    broken: 'The command withdraw deletes the lease that a kube-apiserver at the same address renews.',
    file: 'kubernetes-service/withdraw.ts',
    text: 'if (own.coHolder) {',
    instead: "if (own.coHolder && own.host === '') {",
    tests: ['kubernetes-service/withdraw.test.ts'],
  },
  'one-delayed-read-for-ever': {
    broken: 'After one read that the limit delayed no change of a Lease causes a read any more.',
    file: 'kubernetes-service/leases/kubernetes.ts',
    text: '          cancelChange = undefined\n          onChange()',
    instead: '          onChange()',
    tests: ['kubernetes-service/leases/forged-leases.test.ts'],
  },
  'name-the-writer-of-the-last-fight': {
    broken: 'The Event about a fight without a trace names a writer from long before it.',
    file: 'kubernetes-service/guarded-writes/foreign-overwrites.ts',
    text: 'return trace !== undefined && nowMs - trace.foundMs < FIGHT.windowMs ? trace : undefined',
    instead: 'return trace',
    tests: ['kubernetes-service/guarded-writes/foreign-overwrites.test.ts'],
  },
  'list-since-the-creation-for-ever': {
    broken: 'A list may show the state of the creation of the own Lease a long time later.',
    file: 'kubernetes-service/leases/kubernetes.ts',
    text: ' || clock.monotonicMs() - atMs > SINCE_OWN_LEASE.withinMs',
    instead: ' || atMs < 0',
    tests: ['kubernetes-service/leases/kubernetes.test.ts'],
  },
  'list-since-a-renewal': {
    broken: 'After a renewal of its Lease that it found a master lists the state of that moment.',
    file: 'kubernetes-service/leases/kubernetes.ts',
    text: 'if (current === undefined) this.#created =',
    instead: 'this.#created =',
    tests: ['kubernetes-service/leases/kubernetes.test.ts'],
  },
  'list-since-the-creation-without-end': {
    broken: 'A server that lags behind keeps the first list for as long as it likes.',
    file: 'kubernetes-service/leases/kubernetes.ts',
    text: 'await within(clock, SINCE_OWN_LEASE.limitMs, query.signal, list)',
    instead: 'await within(clock, 60_000, query.signal, list)',
    tests: ['kubernetes-service/leases/kubernetes.test.ts'],
  },
  'list-since-the-creation-beside-a-list': {
    broken: 'The leases may be those of an earlier moment although Endpoints exist, which then lose a newer master.',
    file: 'kubernetes-service/membership/runner.ts',
    text: 'const isNew = stored.endpoints === undefined && stored.slice',
    instead: 'const isNew = stored.slice',
    tests: ['kubernetes-service/membership/runner.test.ts'],
  },
  'an-older-list-restarts-a-lease': {
    broken: 'A list of an earlier moment makes another master’s lease seem renewed at the next list.',
    file: 'kubernetes-service/leases/kubernetes.ts',
    text: '    const items = older ?? (',
    instead:
      '    if (older !== undefined)\n      this.#observer.readAll(\n        older.map((lease) => this.#observed(lease)),\n        this.#options.clock.monotonicMs(),\n        this.#observer.eventCount,\n      )\n    const items = older ?? (',
    tests: ['kubernetes-service/leases/kubernetes.test.ts'],
  },
  'an-older-list-is-the-last-word': {
    broken: 'After a list of an earlier moment the leases are not read again.',
    file: 'kubernetes-service/membership/runner.ts',
    text: "if (sinceOwnLease) this.#take({ type: 'changed' })",
    instead: '',
    tests: ['kubernetes-service/membership/runner.test.ts'],
  },
  'created-by-another-counts-as-written': {
    broken: 'Endpoints that another master creates at the same moment count as written by this one.',
    file: 'kubernetes-service/endpoints-adapter.ts',
    text: "if (outcome.type === 'overtaken') throw new KubeError('Conflict', 'another client has created the Endpoints')",
    instead: "if (outcome.type === 'overtaken') return",
    tests: ['kubernetes-service/endpoints-adapter.test.ts'],
  },
}
