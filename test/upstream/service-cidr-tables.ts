import { readFileSync } from 'node:fs'

/** A ServiceCIDR of upstream's tests. */
export interface GivenServiceCidr {
  readonly name: string
  readonly cidrs: readonly string[]
  /** Whether it has the finalizer. @default false */
  readonly protected?: boolean
  /** How long ago its deletion began. @default it is not being deleted */
  readonly deletedSecondsAgo?: number
}

interface Case<Given, Call, Expected> {
  readonly name: string
  readonly given: { readonly serviceCidrs: readonly GivenServiceCidr[] } & Given
  readonly call: Call
  readonly expect: Expected
}

/** All IPAddresses have the labels of the allocator. */
interface WithAddresses {
  readonly ipAddresses: readonly string[]
}

export const serviceCidrController = JSON.parse(
  readFileSync(new URL('data/service-cidr-controller.json', import.meta.url), 'utf8'),
) as {
  readonly file: string
  readonly tables: {
    /** `actions`: verb, resource and subresource of each write. */
    readonly sync: readonly Case<WithAddresses, { readonly name: string }, { readonly actions: readonly string[] }>[]
    readonly canDeleteCidr: readonly Case<
      WithAddresses,
      { readonly serviceCidr: GivenServiceCidr },
      { readonly canDelete: boolean }
    >[]
    readonly ipToCidrs: readonly Case<object, { readonly ipAddress: string }, { readonly names: readonly string[] }>[]
    readonly cidrToCidrs: readonly Case<
      object,
      { readonly serviceCidr: GivenServiceCidr },
      { readonly names: readonly string[] }
    >[]
  }
}
