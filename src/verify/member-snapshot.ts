import type { MemberState } from './member-state.ts'

/** How a member fares at this moment, which stays as it is. */
export function snapshotOf(member: MemberState): MemberState {
  return {
    name: member.name,
    address: member.address,
    kind: member.kind,
    leaseTtlMs: member.leaseTtlMs,
    reconcileIntervalMs: member.reconcileIntervalMs,
    withdrawsOnStop: member.withdrawsOnStop,
    withdrawsLast: member.withdrawsLast,
    leavesWhenUnready: member.leavesWhenUnready,
    running: member.running,
    stopping: member.stopping,
    ended: member.ended,
    frozen: member.frozen,
    connected: member.connected,
    delayMs: member.delayMs,
    answering: member.answering,
    ready: member.ready,
    serves: member.serves,
    etcdFails: member.etcdFails,
    impaired: member.impaired,
    clientsMeet: member.clientsMeet,
    well: member.well,
    renewing: member.renewing,
    storeFull: member.storeFull,
    lifeCount: member.lifeCount,
    hasBeenReady: member.hasBeenReady,
    connectionResets: member.connectionResets,
    failure: member.failure,
  }
}

/** Whether a member, whose name, kind and address are the same, fares as it did. */
export function isLike(one: MemberState, other: MemberState): boolean {
  return (
    one.running === other.running &&
    one.well === other.well &&
    one.renewing === other.renewing &&
    one.lifeCount === other.lifeCount &&
    one.stopping === other.stopping &&
    one.ended === other.ended &&
    one.frozen === other.frozen &&
    one.connected === other.connected &&
    one.connectionResets === other.connectionResets &&
    one.delayMs === other.delayMs &&
    one.answering === other.answering &&
    one.ready === other.ready &&
    one.serves === other.serves &&
    one.etcdFails === other.etcdFails &&
    one.impaired === other.impaired &&
    one.clientsMeet === other.clientsMeet &&
    one.hasBeenReady === other.hasBeenReady &&
    one.storeFull === other.storeFull &&
    one.leaseTtlMs === other.leaseTtlMs &&
    one.reconcileIntervalMs === other.reconcileIntervalMs &&
    one.withdrawsOnStop === other.withdrawsOnStop &&
    one.withdrawsLast === other.withdrawsLast &&
    one.leavesWhenUnready === other.leavesWhenUnready &&
    one.failure === other.failure
  )
}
