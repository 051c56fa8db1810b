/** Why a file could not be read, in a few words for people. */
export function unreadableReason(error: NodeJS.ErrnoException): string {
  switch (error.code) {
    case 'ENOENT':
      return 'there is no such file'
    case 'EACCES':
      return 'permission denied'
    case 'EISDIR':
      return 'it is a directory'
    default:
      return error.message
  }
}
