// A chat with the team of ../team.yaml, which the gateway names after its file. The address of the page names the chat.
import { useChat } from "@ai-sdk/react"
import { DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses as decided } from "ai"
import { useEffect, useState } from "react"
import { createRoot } from "react-dom/client"

const api = "/ai/team"
location.hash ||= crypto.randomUUID()
const id = location.hash.slice(1)
const stored = JSON.parse(localStorage.getItem(id) ?? "[]")

function Chat() {
  const { messages, sendMessage, addToolApprovalResponse, status, error } = useChat({
    id,
    messages: stored,
    transport: new DefaultChatTransport({ api }),
    sendAutomaticallyWhen: decided,
  })
  const [text, setText] = useState("")
  const isBusy = status === "submitted" || status === "streaming"

  useEffect(() => {
    // No part of an answer is kept: a page that is loaded again reads it from its begin.
    if (status === "ready" || messages.at(-1)?.role === "user") localStorage.setItem(id, JSON.stringify(messages))
  }, [messages, status])
  useEffect(() => {
    // Sent again, a message counts once: its answer follows, whether it is written still or complete.
    if (messages.at(-1)?.role === "user" || decided({ messages })) sendMessage()
  }, [])

  const send = event => {
    event.preventDefault()
    sendMessage({ text })
    setText("")
  }
  return <>
    {messages.map(({ id, role, parts }) => <article key={id}>
      {role === "user" && <b>you</b>}
      {parts.map((part, index) => <Part key={index} part={part} decide={addToolApprovalResponse} />)}
    </article>)}
    {error && <p role="alert">{error.message}</p>}
    <form onSubmit={send}>
      <input value={text} onChange={({ target }) => setText(target.value)} placeholder="Message" required />
      <button disabled={isBusy}>Send</button>
      <button type="button" disabled={!isBusy} onClick={() => fetch(`${api}/${id}/stop`, { method: "POST" })}>Stop</button>
    </form>
  </>
}

function Part({ part, decide }) {
  if (part.type === "data-agent") return <b>{part.data.agent}</b>
  if (part.type === "text") return <p>{part.text}</p>
  if (part.type !== "dynamic-tool") return null
  const { toolName, input, output, errorText, state, approval } = part
  const decision = approved => () => decide({ id: approval.id, approved })
  return <p>
    {`${toolName}(${JSON.stringify(input)}) ${JSON.stringify(output ?? errorText ?? state)} `}
    {state === "approval-requested" && <>
      <button onClick={decision(true)}>Approve</button> <button onClick={decision(false)}>Deny</button>
    </>}
  </p>
}

createRoot(document.querySelector("main")).render(<Chat />)
