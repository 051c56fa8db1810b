import type { Mutant } from '../mutant.ts'

export const mutant: Mutant = {
  broken: 'Updates objects without the resourceVersion that they were read at.',
  file: 'kubernetes-service/object-writer.ts',
  text: '    const stored = await this.#options.api[verb](resource, object, { signal })',
  instead: `    const { resourceVersion: _, ...metadata } = object.metadata ?? {}
    const stored = await this.#options.api[verb](resource, { ...object, metadata } as T, { signal })`,
}
