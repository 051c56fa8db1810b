import type { KubeObject } from '../../src/kube/resources.ts'
import { ObjectMap, refOfObject } from '../../src/kube/store.ts'

export function objectMapOf<T extends KubeObject>(objects: Iterable<T>): ObjectMap<T> {
  const map = new ObjectMap<T>()
  for (const object of objects) map.set(refOfObject(object), object)
  return map
}
