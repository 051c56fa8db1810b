import * as z from 'zod/mini'
import type { OptionGroup } from '../documents/option.ts'

/** Of `masters` alone. */
export const mastersOptions = {
  title: 'Listing',
  options: {
    output: {
      schema: z.enum(['table', 'json']),
      metavar: 'FORMAT',
      description: 'table, or json',
      default: 'table',
    },
    watch: {
      schema: z.boolean(),
      description: 'go on, and show each change, until SIGINT or SIGTERM',
      default: false,
    },
  },
} as const satisfies OptionGroup

/** Of `masters evict` alone. */
export const evictionOptions = {
  title: 'Eviction',
  options: {
    yes: {
      schema: z.boolean(),
      description: 'remove it; without this flag nothing is written',
      default: false,
    },
    force: {
      schema: z.boolean(),
      description: 'also one that lives; never the last one that clients could use',
      default: false,
    },
  },
} as const satisfies OptionGroup
