import type { Mutant } from '../mutant.ts'

export const mutant: Mutant = {
  broken: 'Updates objects without the resourceVersion that they were read at.',
  file: 'kube/object-writer.ts',
  text: "return done('update', await api.update(resource, action.object, { signal }))",
  instead: `{
      const { resourceVersion: _, ...metadata } = action.object.metadata ?? {}
      return done('update', await api.update(resource, { ...action.object, metadata } as T, { signal }))
    }`,
}
