const { stripTypeScriptTypes } = require('node:module')

/** Jest does not read TypeScript by itself. Node does, and so does a preset that you may have already. */
module.exports = { process: (source) => ({ code: stripTypeScriptTypes(source) }) }
