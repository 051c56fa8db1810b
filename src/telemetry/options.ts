import * as z from 'zod/mini'

/** The options for what is logged, and how. They are only declared here: commands/ interprets them. */
export const loggingOptions = {
  title: 'Logging',
  options: {
    logLevel: {
      schema: z.enum(['debug', 'info', 'warn', 'error']),
      metavar: 'LEVEL',
      description: 'debug, info, warn or error',
      default: 'info',
    },
    logFormat: {
      schema: z.enum(['json', 'pretty']),
      metavar: 'FORMAT',
      description: 'json, or pretty for a terminal',
      default: 'json',
    },
  },
} as const
