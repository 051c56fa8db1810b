import type { MasterRow } from './masters-rows.ts'

/** The masters as one object for programs; docs/masters.md names its fields. What is not known is null. Pure. */
export function mastersJson(
  rows: readonly MasterRow[],
  about: { readonly leaseStore: string; readonly listed: readonly string[] | undefined },
): object {
  return {
    apiVersion: 'apiserver-bootstrap/v1alpha1',
    kind: 'MasterList',
    leaseStore: about.leaseStore,
    listedAddresses: about.listed ?? null,
    masters: rows.map(({ address, holder, ageMs, life, verdict, leased, listed, conflicts, id, revision }) => ({
      address: address ?? null,
      holder: holder?.instanceId ?? null,
      host: holder?.host ?? null,
      startedAt: holder?.startedAt ?? null,
      ageSeconds: seconds(ageMs),
      hasLease: leased,
      neverEnds: life?.type === 'never',
      leftSeconds: life === undefined || life.type === 'never' || !leased ? null : seconds(life.leftMs),
      live: verdict === undefined || verdict === 'unknown' ? null : verdict === 'live',
      listed: listed ?? null,
      state: holder?.state ?? null,
      ready: holder === undefined ? null : holder.state === 'ready',
      conflicts,
      id: id ?? null,
      revision: revision ?? null,
    })),
  }
}

function seconds(ms: number | undefined): number | null {
  return ms === undefined ? null : Math.max(0, Math.trunc(ms / 1000))
}
