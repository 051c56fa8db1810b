import { duration } from '../documents/duration-option.ts'
import { type OptionGroup, parsedText, type ValuesOf } from '../documents/option.ts'
import { formatHostPort, parseHostPort } from '../net/host-port.ts'

/** How this process shows its own health, and how it ends. */
export const lifecycleOptions = {
  title: 'Health and shutdown of this process',
  options: {
    healthBindAddress: {
      schema: parsedText(parseHostPort, formatHostPort),
      metavar: 'HOST:PORT',
      description: 'where /livez, /readyz, /healthz and /metrics are served; port 0 picks a free one and logs it',
      default: '127.0.0.1:10269',
    },
    shutdownDelayDuration: {
      schema: duration({ minMs: 0 }),
      metavar: 'DURATION',
      description: 'stay this long after the address is withdrawn',
      default: '0s',
    },
  },
} as const satisfies OptionGroup

export type LifecycleValues = ValuesOf<typeof lifecycleOptions>
