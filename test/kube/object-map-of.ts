import type { ObjectMap } from '../../src/kube/object-map.ts'
import type { Packing } from '../../src/kube/packed-objects.ts'
import type { KubeObject } from '../../src/kube/resources.ts'
import { objectMap, refOfObject } from '../../src/kube/store.ts'

export function objectMapOf<T extends KubeObject>(objects: Iterable<T>, packing?: Packing<T>): ObjectMap<T> {
  const map = objectMap(packing)
  for (const object of objects) map.set(refOfObject(object), object)
  return map
}
