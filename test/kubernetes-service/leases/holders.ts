export { addressesIn as addressesOf, holder } from '../../../src/verify/watched-leases.ts'
