import type { DrillMutant } from '../mutant.ts'

export const mutant: DrillMutant = {
  broken: 'Updates objects without the resourceVersion that they were read at.',
  invariant: 'listed-master-stays',
  file: 'kubernetes-service/guarded-writes/object-writer.ts',
  text: "return write('update', () => api.update(resource, action.object, { lingers: true, signal }))",
  instead: `const { resourceVersion: _, ...metadata } = action.object.metadata ?? {}
      const unguarded = { ...action.object, metadata } as T
      return write('update', () => api.update(resource, unguarded, { lingers: true, signal }))`,
}
