// MCP servers that many people use: how their makers say they are reached. A preset only fills the form; nothing trusts it.

export type Preset = {
  /** The name that the source gets, unless somebody changes it. */
  id: string
  title: string
  /** Over streamable HTTP. */
  url?: string
  /** As a program that speaks over stdin and stdout. */
  command?: string
  credential: 'none' | 'bearer' | 'oauth'
  note: string
}

export const PRESETS: readonly Preset[] = [
  {
    id: 'github',
    title: 'GitHub',
    url: 'https://api.githubcopilot.com/mcp/',
    credential: 'bearer',
    note: 'The token is a personal access token of GitHub.',
  },
  { id: 'linear', title: 'Linear', url: 'https://mcp.linear.app/mcp', credential: 'oauth', note: 'You log in at Linear.' },
  { id: 'notion', title: 'Notion', url: 'https://mcp.notion.com/mcp', credential: 'oauth', note: 'You log in at Notion.' },
  { id: 'sentry', title: 'Sentry', url: 'https://mcp.sentry.dev/mcp', credential: 'oauth', note: 'You log in at Sentry.' },
  {
    id: 'stripe',
    title: 'Stripe',
    url: 'https://mcp.stripe.com',
    credential: 'bearer',
    note: 'The token is an API key of Stripe: make a restricted one.',
  },
  { id: 'supabase', title: 'Supabase', url: 'https://mcp.supabase.com/mcp', credential: 'oauth', note: 'You log in at Supabase.' },
  {
    id: 'hugging-face',
    title: 'Hugging Face',
    url: 'https://huggingface.co/mcp',
    credential: 'none',
    note: 'Without a credential it finds what is public; with a token, what is yours too.',
  },
  {
    id: 'cloudflare-docs',
    title: 'Cloudflare documentation',
    url: 'https://docs.mcp.cloudflare.com/mcp',
    credential: 'none',
    note: 'It needs no credential.',
  },
  {
    id: 'microsoft-learn',
    title: 'Microsoft Learn',
    url: 'https://learn.microsoft.com/api/mcp',
    credential: 'none',
    note: 'It needs no credential.',
  },
  {
    id: 'filesystem',
    title: 'Filesystem (a program)',
    command: 'node /opt/mcp/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js /stage',
    credential: 'none',
    note: 'The reference server for files, as npm install --prefix /opt/mcp @modelcontextprotocol/server-filesystem puts it there. The last word is the folder that it shows.',
  },
  {
    id: 'everything',
    title: 'Everything (to try things out)',
    url: 'http://127.0.0.1:3001/mcp',
    credential: 'none',
    note: 'The reference server of the protocol. Start it with npx @modelcontextprotocol/server-everything streamableHttp.',
  },
]

/** What stands for a server of one’s own, in the address of the page. */
export const OWN = 'own'
