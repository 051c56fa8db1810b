import type { Primitive } from '../../src/drill/target.ts'

/**
 * Two faults that cut a master off from etcd and overlap in both orders. Each step states whether the master then
 * reaches etcd.
 */
export function overlappingEtcdCuts(master: string): readonly (readonly [step: Primitive, reachesEtcd: boolean])[] {
  return [
    [{ type: 'own-etcd', master, state: 'fails' }, false],
    [{ type: 'cut', master, path: 'store' }, false],
    [{ type: 'heal', master, path: 'store' }, false],
    [{ type: 'cut', master, path: 'store' }, false],
    [{ type: 'own-etcd', master, state: 'ok' }, false],
    [{ type: 'heal', master, path: 'store' }, true],
  ]
}
